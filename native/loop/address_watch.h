// The class `AddressWatch` that JavaScript sees.
#ifndef FAIRLEAD_LOOP_ADDRESS_WATCH_H_
#define FAIRLEAD_LOOP_ADDRESS_WATCH_H_

#include <napi.h>

#include "binding/tagged_wrap.h"

// Part of libuv, whose headers and those of the kernel exclude each other.
struct uv_poll_s;

namespace fairlead::loop {

/**
 *   new AddressWatch((error: Error | undefined) => void)
 *   close(): void
 *
 * Calls the function when an address of this process's network namespace may have come or gone.
 * Before it is constructed nothing is noticed: read the addresses after that. It does not keep the
 * process alive. When a system call fails, the last call has an Error with `errno` (a number) and
 * `syscall`, and nothing is watched any more; the constructor throws such an Error. After close()
 * there is no call.
 */
class AddressWatch : public binding::TaggedWrap<AddressWatch> {
 public:
  static constexpr napi_type_tag kTag = {0x751eeaa147ac3222, 0x4853cffeca3c52f7};

  static Napi::Function Define(Napi::Env env);
  explicit AddressWatch(const Napi::CallbackInfo& info);
  ~AddressWatch() override;

 private:
  struct Polled;

  static void OnReadable(uv_poll_s* poll, int status, int events);
  void Close(const Napi::CallbackInfo& info);
  void Stop() noexcept;

  Napi::FunctionReference callback_;
  /** Owned by the loop once it is closing. */
  Polled* polled_ = nullptr;
};

}  // namespace fairlead::loop

#endif  // FAIRLEAD_LOOP_ADDRESS_WATCH_H_
