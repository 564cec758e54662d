// The class `Watch` that JavaScript sees.
#ifndef FAIRLEAD_BINDING_WATCH_WRAP_H_
#define FAIRLEAD_BINDING_WATCH_WRAP_H_

#include <napi.h>

#include <memory>

#include "binding/tagged_wrap.h"

namespace fairlead::binding {

class Watching;

/**
 *   new Watch({ netns?: string, tables: { family: number, table: string }[] },
 *             (error: Error | undefined, program: string, pid: number) => void)
 *   ignore(port: number): void
 *   close(): void
 *
 * Calls the function on the thread of JavaScript: once when the watch has started, then up to 40
 * times a second after another program has changed one of the tables. `program` and `pid` name the
 * last one that did. Changes from the netlink port of ignore() are not reported. When a system call
 * fails, the last call has an Error with `errno` (a number) and `syscall`, and the watch has ended.
 * A call that is queued when close() is called is still made. When no thread can be made, the
 * constructor throws such an Error.
 */
class WatchWrap : public TaggedWrap<WatchWrap> {
 public:
  static constexpr napi_type_tag kTag = {0xbc8d22676abd45b8, 0x6bbcbd27c62aac58};

  static Napi::Function Define(Napi::Env env);
  explicit WatchWrap(const Napi::CallbackInfo& info);
  ~WatchWrap() override;

 private:
  void Ignore(const Napi::CallbackInfo& info);
  void Close(const Napi::CallbackInfo& info);

  /** Shared with the thread-safe function, which may outlive this object. */
  std::shared_ptr<Watching> watching_;
};

}  // namespace fairlead::binding

#endif  // FAIRLEAD_BINDING_WATCH_WRAP_H_
