// The class `Watch` that JavaScript sees.
#ifndef FAIRLEAD_BINDING_WATCH_WRAP_H_
#define FAIRLEAD_BINDING_WATCH_WRAP_H_

#include <napi.h>

#include <memory>

namespace fairlead::binding {

class Watching;

/**
 *   new Watch({ netns?: string, tables: { family: number, table: string }[] },
 *             (program: string, pid: number) => void)
 *   ignore(port: number): void
 *   close(): void
 *
 * The function is called on the thread of JavaScript, at most some dozen times a second, and may
 * still be called after close() when that call was under way.
 */
class WatchWrap : public Napi::ObjectWrap<WatchWrap> {
 public:
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
