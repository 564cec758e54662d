// The export table of the addon.
#include <napi.h>

#include "binding/find_listener.h"
#include "binding/line_writer_wrap.h"
#include "binding/give_back.h"
#include "binding/socket_wrap.h"
#include "binding/tcp_buffers.h"
#include "binding/watch_wrap.h"
#include "loop/address_watch.h"
#include "loop/turn_meter.h"
#include "protocol/ops.gen.h"

namespace {

Napi::Object Init(Napi::Env env, Napi::Object exports) {
  exports.Set("AddressWatch", fairlead::loop::AddressWatch::Define(env));
  exports.Set("LineWriter", fairlead::binding::LineWriterWrap::Define(env));
  exports.Set("boundPorts", Napi::Function::New<fairlead::binding::BoundPorts>(env));
  exports.Set("bufferedBytes", Napi::Function::New<fairlead::binding::BufferedBytes>(env));
  exports.Set("findListener", Napi::Function::New<fairlead::binding::FindListener>(env));
  exports.Set("limitBuffers", Napi::Function::New<fairlead::binding::LimitBuffers>(env));
  exports.Set("openListener", Napi::Function::New<fairlead::binding::OpenListener>(env));
  exports.Set("releaseFilePages",
              Napi::Function::New<fairlead::binding::ReleaseFilePages>(env));
  exports.Set("schemaSum", Napi::Number::New(env, fairlead::protocol::kSchemaSum));
  exports.Set("Socket", fairlead::binding::SocketWrap::Define(env));
  exports.Set("startCollection", Napi::Function::New<fairlead::binding::StartCollection>(env));
  exports.Set("trimMalloc", Napi::Function::New<fairlead::binding::TrimMalloc>(env));
  exports.Set("TurnMeter", fairlead::loop::TurnMeter::Define(env));
  exports.Set("Watch", fairlead::binding::WatchWrap::Define(env));
  return exports;
}

}  // namespace

NODE_API_MODULE(fairlead, Init)
