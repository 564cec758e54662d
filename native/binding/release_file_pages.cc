#include "binding/release_file_pages.h"

#include "binding/error.h"
#include "memory/file_pages.h"

namespace fairlead::binding {

Napi::Value ReleaseFilePages(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  const auto released = memory::ReleaseFilePages();
  if (!released) {
    napi_throw(env, ToError(env, released.error()));
    return env.Undefined();
  }
  return Napi::Number::New(env, static_cast<double>(*released));
}

}  // namespace fairlead::binding
