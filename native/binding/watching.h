// Passes what a watcher's thread reports to the thread of JavaScript.
#ifndef FAIRLEAD_BINDING_WATCHING_H_
#define FAIRLEAD_BINDING_WATCHING_H_

#include <napi.h>

#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "binding/watcher.h"

namespace fairlead::binding {

/** A watcher and the thread-safe function that its thread calls. It ends as a Completion does. */
class Watching : public std::enable_shared_from_this<Watching> {
 public:
  /** Starts a watcher. On failure a JavaScript exception is pending, and the result is empty. */
  static std::shared_ptr<Watching> Start(Napi::Env env, const Napi::Function& report,
                                         std::string network_namespace, Watcher::Reader reader);

  void Ignore(std::uint32_t port) noexcept { watcher_.Ignore(port); }
  void Close() noexcept { watcher_.Close(); }

  // Only for Start.
  Watching(std::string network_namespace, Watcher::Reader reader);

 private:
  /** The program that made a change, or why the watch has ended. */
  using Event = std::variant<nft::Committer, SystemError>;

  static void OnEvent(napi_env env, napi_value callback, void* self, void* event);
  static void OnFinalize(napi_env env, void* share, void* self);
  static void OnTeardown(void* self);

  bool CreateFunction(Napi::Env env, const Napi::Function& report);
  /** Queues a call of the function of JavaScript. */
  void Report(Event event);

  napi_threadsafe_function function_ = nullptr;
  Watcher watcher_;
};

}  // namespace fairlead::binding

#endif  // FAIRLEAD_BINDING_WATCHING_H_
