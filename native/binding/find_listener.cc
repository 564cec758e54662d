#include "binding/find_listener.h"

#include "binding/error.h"
#include "local/listener.h"

namespace fairlead::binding {

Napi::Value FindListener(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  if (!info[0].IsString()) {
    Napi::TypeError::New(env, "findListener: the name must be a string")
        .ThrowAsJavaScriptException();
    return env.Undefined();
  }
  const auto found = local::FindListener(info[0].As<Napi::String>().Utf8Value());
  if (!found) {
    napi_throw(env, ToError(env, found.error()));
    return env.Undefined();
  }
  if (!found->has_value()) return env.Undefined();
  Napi::Object listener = Napi::Object::New(env);
  listener.Set("pid", Napi::Number::New(env, (*found)->pid));
  listener.Set("uid", Napi::Number::New(env, (*found)->uid));
  if (const auto administers = (*found)->administers_net) {
    listener.Set("administersNet", Napi::Boolean::New(env, *administers));
  }
  return listener;
}

Napi::Value OpenListener(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  if (!info[0].IsString()) {
    Napi::TypeError::New(env, "openListener: the name must be a string")
        .ThrowAsJavaScriptException();
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
