#include "binding/completion.h"

#include "binding/error.h"
#include "binding/pending_submit.h"

namespace fairlead::binding {

Completion::Completion(std::string network_namespace, Families families)
    : channel_(
          std::move(network_namespace), std::move(families),
          [this](std::unique_ptr<Job> job) {
            // The queue is unbounded, so the call fails only when the environment is gone. The
            // job holds references of that environment, so it cannot be freed here.
            static_cast<void>(
                napi_call_threadsafe_function(function_, job.release(), napi_tsfn_nonblocking));
          },
          [this] {
            static_cast<void>(napi_release_threadsafe_function(function_, napi_tsfn_release));
          }) {}

bool Completion::CreateFunction(Napi::Env env) {
  auto share = std::make_unique<std::shared_ptr<Completion>>(shared_from_this());
  const napi_status status = napi_create_threadsafe_function(
      env, nullptr, nullptr, Napi::String::New(env, "fairlead.Socket"), 0, 1, share.get(),
      OnFinalize, this, OnDone, &function_);
  if (status != napi_ok) return false;
  static_cast<void>(share.release());
  // An idle socket does not keep the process alive.
  napi_unref_threadsafe_function(env, function_);
  napi_add_env_cleanup_hook(env, OnTeardown, this);
  return true;
}

std::shared_ptr<Completion> Completion::Start(Napi::Env env, std::string network_namespace,
                                              Families families) {
  auto completion = std::make_shared<Completion>(std::move(network_namespace), std::move(families));
  if (!completion->CreateFunction(env)) {
    Napi::Error::New(env, "the environment is shutting down").ThrowAsJavaScriptException();
    return nullptr;
  }
  const auto started = completion->channel_.Start();
  if (started) return completion;
  napi_release_threadsafe_function(completion->function_, napi_tsfn_abort);
  napi_throw(env, ToError(env, started.error()));
  return nullptr;
}

Napi::Value Completion::Submit(Napi::Env env, const Napi::Uint8Array& buffer) {
  napi_value promise = nullptr;
  auto submit = PendingSubmit::Create(env, buffer, &promise);
  if (!submit) return env.Undefined();
  if (pending_++ == 0) napi_ref_threadsafe_function(env, function_);
  channel_.Submit(std::move(submit));
  return Napi::Value(env, promise);
}

void Completion::Close() {
  closed_ = true;
  channel_.Close();
}

// Without an environment `self` may be gone: the finalizer runs before the queue is emptied.
void Completion::OnDone(napi_env env, napi_value, void* self, void* job) {
  const std::unique_ptr<PendingSubmit> submit(static_cast<PendingSubmit*>(job));
  if (env == nullptr) return;
  auto* completion = static_cast<Completion*>(self);
  if (--completion->pending_ == 0) napi_unref_threadsafe_function(env, completion->function_);
  submit->Settle();
}

void Completion::OnFinalize(napi_env env, void* share, void* self) {
  napi_remove_env_cleanup_hook(env, OnTeardown, self);
  const std::unique_ptr<std::shared_ptr<Completion>> last(
      static_cast<std::shared_ptr<Completion>*>(share));
  (*last)->channel_.Abandon();
}

void Completion::OnTeardown(void* self) { static_cast<Completion*>(self)->channel_.Abandon(); }

}  // namespace fairlead::binding
