#include "binding/tcp_buffers.h"

#include "binding/type_error.h"
#include "tcp/buffers.h"

namespace fairlead::binding {

Napi::Value LimitBuffers(const Napi::CallbackInfo& info) {
  if (!info[0].IsNumber() || !info[1].IsNumber()) {
    ThrowTypeError(info.Env(), "limitBuffers: the descriptor and the bytes must be numbers");
    return info.Env().Undefined();
  }
  tcp::LimitBuffers(info[0].As<Napi::Number>().Int32Value(),
                    info[1].As<Napi::Number>().Int32Value());
  return info.Env().Undefined();
}

Napi::Value BufferedBytes(const Napi::CallbackInfo& info) {
  if (!info[0].IsNumber()) {
    ThrowTypeError(info.Env(), "bufferedBytes: the descriptor must be a number");
    return info.Env().Undefined();
  }
  return Napi::Number::New(info.Env(),
                           tcp::BufferedBytes(info[0].As<Napi::Number>().Int32Value()));
}

}  // namespace fairlead::binding
