// The class `Socket` that JavaScript sees.
#ifndef FAIRLEAD_BINDING_SOCKET_WRAP_H_
#define FAIRLEAD_BINDING_SOCKET_WRAP_H_

#include <napi.h>

#include <memory>

#include "binding/channel.h"
#include "binding/tagged_wrap.h"

namespace fairlead::binding {

class Completion;

/**
 *   new Socket({ netns?: string, receiveBufferBytes?: number, xtablesLock?: string })
 *   submit(buffer: Uint8Array): Promise<Uint8Array>
 *   close(): void
 *
 * When a system call fails, the promise is rejected with an Error that has `errno` (a number) and
 * `syscall`. Errors of the kernel, and buffers that are invalid, are answered with records.
 */
class SocketWrap : public TaggedWrap<SocketWrap> {
 public:
  static constexpr napi_type_tag kTag = {0x5f23c6ba49685032, 0xd636079be325198b};

  static Napi::Function Define(Napi::Env env);
  explicit SocketWrap(const Napi::CallbackInfo& info);
  ~SocketWrap() override;

 private:
  Napi::Value Submit(const Napi::CallbackInfo& info);
  void Close(const Napi::CallbackInfo& info);

  /** Shared with the thread-safe function, which outlives this object while jobs run. */
  std::shared_ptr<Completion> completion_;
};

}  // namespace fairlead::binding

#endif  // FAIRLEAD_BINDING_SOCKET_WRAP_H_
