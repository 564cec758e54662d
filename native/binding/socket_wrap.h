// The class `Socket` that JavaScript sees.
#ifndef FAIRLEAD_BINDING_SOCKET_WRAP_H_
#define FAIRLEAD_BINDING_SOCKET_WRAP_H_

#include <napi.h>

#include <memory>

#include "binding/channel.h"

namespace fairlead::binding {

class Completion;

/**
 *   new Socket({ netns?: string, receiveBufferBytes?: number })
 *   submit(buffer: Uint8Array): Promise<Uint8Array>
 *   close(): void
 *
 * A promise is rejected with an Error that carries `errno` (a number) and `syscall` when a system
 * call failed. Buffers that make no sense are answered with a record, as errors of the kernel are.
 */
class SocketWrap : public Napi::ObjectWrap<SocketWrap> {
 public:
  static Napi::Function Define(Napi::Env env);
  explicit SocketWrap(const Napi::CallbackInfo& info);
  ~SocketWrap() override;

 private:
  Napi::Value Submit(const Napi::CallbackInfo& info);
  void Close(const Napi::CallbackInfo& info);

  /** Shared with the thread-safe function, which outlives this object while jobs are under way. */
  std::shared_ptr<Completion> completion_;
};

}  // namespace fairlead::binding

#endif  // FAIRLEAD_BINDING_SOCKET_WRAP_H_
