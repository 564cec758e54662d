#include "binding/watching.h"

#include <optional>
#include <utility>

#include "binding/error.h"

namespace fairlead::binding {

Watching::Watching(std::string network_namespace, Watcher::Reader reader)
    : watcher_(
          std::move(network_namespace), std::move(reader),
          [this](const nft::Committer& by) { Report(by); },
          [this](const std::optional<SystemError>& error) {
            if (error) Report(*error);
            static_cast<void>(napi_release_threadsafe_function(function_, napi_tsfn_release));
          }) {}

void Watching::Report(Event event) {
  auto owned = std::make_unique<Event>(std::move(event));
  // The queue is unbounded, so this fails only when the environment is gone.
  if (napi_call_threadsafe_function(function_, owned.get(), napi_tsfn_nonblocking) == napi_ok) {
    static_cast<void>(owned.release());
  }
}

bool Watching::CreateFunction(Napi::Env env, const Napi::Function& report) {
  auto share = std::make_unique<std::shared_ptr<Watching>>(shared_from_this());
  const napi_status status =
      napi_create_threadsafe_function(env, report, nullptr,
                                      Napi::String::New(env, "fairlead.Watch"), 0, 1, share.get(),
                                      OnFinalize, this, OnEvent, &function_);
  if (status != napi_ok) return false;
  static_cast<void>(share.release());
  // The function does not keep the process alive.
  napi_unref_threadsafe_function(env, function_);
  napi_add_env_cleanup_hook(env, OnTeardown, this);
  return true;
}

std::shared_ptr<Watching> Watching::Start(Napi::Env env, const Napi::Function& report,
                                          std::string network_namespace, Watcher::Reader reader) {
  auto watching = std::make_shared<Watching>(std::move(network_namespace), std::move(reader));
  if (!watching->CreateFunction(env, report)) {
    Napi::Error::New(env, "the environment is shutting down").ThrowAsJavaScriptException();
    return nullptr;
  }
  const auto started = watching->watcher_.Start();
  if (started) return watching;
  napi_release_threadsafe_function(watching->function_, napi_tsfn_abort);
  napi_throw(env, ToError(env, started.error()));
  return nullptr;
}

// Uses the C interface and ignores failed calls, as PendingSubmit does.
void Watching::OnEvent(napi_env env, napi_value callback, void*, void* event) {
  const std::unique_ptr<Event> owned(static_cast<Event*>(event));
  if (env == nullptr || callback == nullptr) return;
  napi_value nothing = nullptr;
  if (napi_get_undefined(env, &nothing) != napi_ok) return;
  const auto* error = std::get_if<SystemError>(owned.get());
  const nft::Committer by = error ? nft::Committer() : std::get<nft::Committer>(*owned);
  napi_value words[3] = {error ? ToError(env, *error) : nothing, nullptr, nullptr};
  if (napi_create_string_utf8(env, by.program.data(), by.program.size(), &words[1]) != napi_ok ||
      napi_create_uint32(env, by.pid, &words[2]) != napi_ok) {
    return;
  }
  static_cast<void>(napi_call_function(env, nothing, callback, 3, words, nullptr));
}

void Watching::OnFinalize(napi_env env, void* share, void* self) {
  napi_remove_env_cleanup_hook(env, OnTeardown, self);
  const std::unique_ptr<std::shared_ptr<Watching>> last(
      static_cast<std::shared_ptr<Watching>*>(share));
  (*last)->watcher_.Abandon();
}

void Watching::OnTeardown(void* self) { static_cast<Watching*>(self)->watcher_.Abandon(); }

}  // namespace fairlead::binding
