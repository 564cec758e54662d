#include "binding/find_listener.h"

#include "binding/error.h"
#include "binding/type_error.h"
#include "local/bound_ports.h"
#include "local/listener.h"

namespace fairlead::binding {

Napi::Value BoundPorts(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  const auto entries = local::BoundPorts();
  if (!entries) {
    napi_throw(env, ToError(env, entries.error()));
    return env.Undefined();
  }
  return Napi::Buffer<std::uint8_t>::Copy(env, entries->data(), entries->size());
}

Napi::Value FindListener(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  if (!info[0].IsString()) {
    ThrowTypeError(env, "findListener: the name must be a string");
    return env.Undefined();
  }
  const auto found = local::FindListener(info[0].As<Napi::String>().Utf8Value());
  if (!found) {
    napi_throw(env, ToError(env, found.error()));
    return env.Undefined();
  }
  const auto& listener = *found;
  if (!listener) return env.Undefined();
  Napi::Object shown = Napi::Object::New(env);
  shown.Set("pid", Napi::Number::New(env, listener->pid));
  shown.Set("uid", Napi::Number::New(env, listener->uid));
  if (const auto& administers = listener->administers_net) {
    shown.Set("administersNet", Napi::Boolean::New(env, *administers));
  }
  return shown;
}

Napi::Value OpenListener(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  if (!info[0].IsString()) {
    ThrowTypeError(env, "openListener: the name must be a string");
    return env.Undefined();
  }
  auto opened = local::OpenListener(info[0].As<Napi::String>().Utf8Value());
  if (!opened) {
    napi_throw(env, ToError(env, opened.error()));
    return env.Undefined();
  }
  return Napi::Number::New(env, opened->Release());
}

}  // namespace fairlead::binding
