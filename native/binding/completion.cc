#include "binding/completion.h"

#include <cstring>

namespace fairlead::binding {

namespace {

// Below this a copy is cheaper than a finalizer.
constexpr std::size_t kExternalBytesMin = 64 * 1024;

struct PendingSubmit : Job {
  PendingSubmit(Napi::Env env, const Napi::Uint8Array& buffer)
      : deferred(Napi::Promise::Deferred::New(env)),
        reference(Napi::Persistent(buffer.As<Napi::Object>())) {
    input = {buffer.Data(), buffer.ByteLength()};
  }

  Napi::Promise::Deferred deferred;
  Napi::ObjectReference reference;
};

Napi::Buffer<std::uint8_t> ToBuffer(Napi::Env env, ByteBuffer bytes) {
  const std::size_t size = bytes.size();
  if (size < kExternalBytesMin) return Napi::Buffer<std::uint8_t>::Copy(env, bytes.data(), size);
  return Napi::Buffer<std::uint8_t>::NewOrCopy(
      env, bytes.Release().release(), size,
      [](Napi::BasicEnv, std::uint8_t* data) { ByteBuffer::Free()(data); });
}

/** A plain Uint8Array: a Buffer is one too, but compares unequal to one in tests. */
Napi::Value ToJavaScript(Napi::Env env, ByteBuffer bytes) {
  const auto buffer = ToBuffer(env, std::move(bytes));
  return Napi::Uint8Array::New(env, buffer.ByteLength(), buffer.ArrayBuffer(), buffer.ByteOffset());
}

Napi::Value ToJavaScript(Napi::Env env, const SystemError& error) {
  const std::string words = error.call + ": " + std::strerror(error.error);
  Napi::Object object = Napi::Error::New(env, words).Value();
  object.Set("errno", Napi::Number::New(env, error.error));
  object.Set("syscall", Napi::String::New(env, error.call));
  return object;
}

void Settle(Napi::Env env, PendingSubmit& submit) {
  if (submit.result) {
    submit.deferred.Resolve(ToJavaScript(env, std::move(*submit.result)));
  } else {
    submit.deferred.Reject(ToJavaScript(env, submit.result.error()));
  }
}

}  // namespace

Completion::Completion(std::string network_namespace, Families families)
    : channel_(
          std::move(network_namespace), std::move(families),
          [this](std::unique_ptr<Job> job) {
            // The queue is unbounded, so this fails only when the environment is gone. The job
            // holds references of that environment and cannot be freed here.
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
  Napi::Error(env, ToJavaScript(env, started.error())).ThrowAsJavaScriptException();
  return nullptr;
}

Napi::Promise Completion::Submit(Napi::Env env, const Napi::Uint8Array& buffer) {
  auto submit = std::make_unique<PendingSubmit>(env, buffer);
  const Napi::Promise promise = submit->deferred.Promise();
  if (pending_++ == 0) napi_ref_threadsafe_function(env, function_);
  channel_.Submit(std::move(submit));
  return promise;
}

void Completion::Close() {
  closed_ = true;
  channel_.Close();
}

// `self` may be gone when there is no environment: the finalizer runs before the queue is emptied.
void Completion::OnDone(napi_env env, napi_value, void* self, void* job) {
  const std::unique_ptr<PendingSubmit> submit(static_cast<PendingSubmit*>(job));
  if (env == nullptr) return;
  auto* completion = static_cast<Completion*>(self);
  if (--completion->pending_ == 0) napi_unref_threadsafe_function(env, completion->function_);
  Settle(env, *submit);
}

void Completion::OnFinalize(napi_env env, void* share, void* self) {
  napi_remove_env_cleanup_hook(env, OnTeardown, self);
  const std::unique_ptr<std::shared_ptr<Completion>> last(
      static_cast<std::shared_ptr<Completion>*>(share));
  (*last)->channel_.Abandon();
}

void Completion::OnTeardown(void* self) { static_cast<Completion*>(self)->channel_.Abandon(); }

}  // namespace fairlead::binding
