// The export table of the addon.
#include <napi.h>

#include "binding/socket_wrap.h"

namespace {

Napi::Object Init(Napi::Env env, Napi::Object exports) {
  exports.Set("Socket", fairlead::binding::SocketWrap::Define(env));
  return exports;
}

}  // namespace

NODE_API_MODULE(fairlead, Init)
