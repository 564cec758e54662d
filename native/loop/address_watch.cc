#include "loop/address_watch.h"

#include <uv.h>

#include <optional>
#include <utility>

#include "binding/error.h"
#include "binding/type_error.h"
#include "route/address_events.h"

namespace fairlead::loop {

/** The socket must outlive the handle, which the loop closes later. */
struct AddressWatch::Polled {
  uv_poll_t poll;
  route::AddressEvents events;
};

Napi::Function AddressWatch::Define(Napi::Env env) {
  return DefineClass(env, "AddressWatch", {InstanceMethod<&AddressWatch::Close>("close")});
}

AddressWatch::AddressWatch(const Napi::CallbackInfo& info)
    : binding::TaggedWrap<AddressWatch>(info) {
  const Napi::Env env = info.Env();
  if (!info[0].IsFunction()) {
    binding::ThrowTypeError(env, "AddressWatch: takes a function");
    return;
  }
  uv_loop_t* loop = nullptr;
  if (napi_get_uv_event_loop(env, &loop) != napi_ok) {
    Napi::Error::New(env, "AddressWatch: there is no event loop").ThrowAsJavaScriptException();
    return;
  }
  auto events = route::AddressEvents::Open();
  if (!events) {
    napi_throw(env, binding::ToError(env, events.error()));
    return;
  }
  callback_ = Napi::Persistent(info[0].As<Napi::Function>());
  polled_ = new Polled{.poll = {}, .events = std::move(*events)};
  // Neither call can fail with a new socket that does not block.
  uv_poll_init(loop, &polled_->poll, polled_->events.fd());
  polled_->poll.data = this;
  uv_poll_start(&polled_->poll, UV_READABLE, OnReadable);
  uv_unref(reinterpret_cast<uv_handle_t*>(&polled_->poll));
}

AddressWatch::~AddressWatch() { Stop(); }

void AddressWatch::Stop() noexcept {
  if (polled_ == nullptr) return;
  auto* handle = reinterpret_cast<uv_handle_t*>(&polled_->poll);
  handle->data = polled_;
  uv_close(handle, [](uv_handle_t* closed) { delete static_cast<Polled*>(closed->data); });
  polled_ = nullptr;
}

/** Errors of the socket, such as dropped messages, come out when it is read. */
void AddressWatch::OnReadable(uv_poll_t* poll, int, int) {
  auto& self = *static_cast<AddressWatch*>(poll->data);
  const auto changed = self.polled_->events.Take();
  if (changed && !*changed) return;
  const Napi::Env env = self.Env();
  const Napi::HandleScope scope(env);
  Napi::Value error = env.Undefined();
  if (!changed) {
    self.Stop();
    error = Napi::Value(env, binding::ToError(env, changed.error()));
  }
  self.callback_.MakeCallback(env.Global(), {error});
}

void AddressWatch::Close(const Napi::CallbackInfo&) { Stop(); }

}  // namespace fairlead::loop
