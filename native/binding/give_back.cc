#include "binding/give_back.h"

#include <malloc.h>

#include <cstdint>

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

Napi::Value StartCollection(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  // V8 starts to mark when 64 MB came since the last collection (kExternalAllocationSoftLimit).
  constexpr std::int64_t kPressureBytes = std::int64_t{80} << 20;
  Napi::MemoryManagement::AdjustExternalMemory(env, kPressureBytes);
  Napi::MemoryManagement::AdjustExternalMemory(env, -kPressureBytes);
  return env.Undefined();
}

Napi::Value TrimMalloc(const Napi::CallbackInfo& info) {
#ifdef __GLIBC__
  static_cast<void>(::malloc_trim(0));
#endif
  return info.Env().Undefined();
}

}  // namespace fairlead::binding
