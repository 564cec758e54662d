#ifndef FAIRLEAD_BINDING_PENDING_SUBMIT_H_
#define FAIRLEAD_BINDING_PENDING_SUBMIT_H_

#include <node_api.h>

#include <memory>

#include "binding/channel.h"

namespace fairlead::binding {

/**
 * A job with its promise, and the JavaScript buffer that it reads. It uses the C interface of
 * Node-API. While an environment is terminated any call may fail. The C++ wrapper would answer with
 * a JavaScript exception, which cannot be thrown then and ends the process. Here failed calls are
 * ignored, because nothing waits for the promise any more.
 */
class PendingSubmit : public Job {
 public:
  /** Nothing when the environment is being terminated. `buffer` is a Uint8Array. */
  static std::unique_ptr<PendingSubmit> Create(napi_env env, napi_value buffer,
                                               napi_value* promise);
  /** Must run on the thread of JavaScript. */
  ~PendingSubmit() override;

  /** Resolves or rejects the promise with the result. */
  void Settle();

 private:
  PendingSubmit(napi_env env, napi_deferred deferred, napi_ref buffer) noexcept
      : env_(env), deferred_(deferred), buffer_(buffer) {}

  napi_env env_;
  napi_deferred deferred_;
  napi_ref buffer_;
};

}  // namespace fairlead::binding

#endif  // FAIRLEAD_BINDING_PENDING_SUBMIT_H_
