// Passes finished jobs from a channel's thread to the thread of JavaScript.
#ifndef FAIRLEAD_BINDING_COMPLETION_H_
#define FAIRLEAD_BINDING_COMPLETION_H_

#include <napi.h>

#include <memory>
#include <string>

#include "binding/channel.h"

namespace fairlead::binding {

/**
 * A channel and the thread-safe function that its thread calls. It ends in one of two ways:
 *
 * - JavaScript calls close(), or the collector frees the JavaScript object. The thread finishes its
 *   jobs, releases the thread-safe function and ends. The function's finalizer then drops its share
 *   of this object.
 * - The environment ends, with the process or with a worker thread. The cleanup hook joins the
 *   thread. Hooks run last-added-first, so the thread ends before the thread-safe function, whose
 *   own hook was added earlier.
 */
class Completion : public std::enable_shared_from_this<Completion> {
 public:
  /** Starts a channel. On failure a JavaScript exception is pending, and the result is empty. */
  static std::shared_ptr<Completion> Start(Napi::Env env, std::string network_namespace,
                                           Families families);

  /**
   * Submits `buffer`, and keeps it from the collector until it was run. Returns a promise of the
   * answer, or undefined when the environment is being terminated.
   */
  Napi::Value Submit(Napi::Env env, const Napi::Uint8Array& buffer);
  void Close();
  bool closed() const noexcept { return closed_; }

  // Only for Start.
  Completion(std::string network_namespace, Families families);

 private:
  static void OnDone(napi_env env, napi_value callback, void* self, void* job);
  static void OnFinalize(napi_env env, void* share, void* self);
  static void OnTeardown(void* self);

  bool CreateFunction(Napi::Env env);

  napi_threadsafe_function function_ = nullptr;
  std::size_t pending_ = 0;
  bool closed_ = false;
  Channel channel_;
};

}  // namespace fairlead::binding

#endif  // FAIRLEAD_BINDING_COMPLETION_H_
