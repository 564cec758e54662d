// Functions that give memory back to the system, as JavaScript sees them.
#ifndef FAIRLEAD_BINDING_GIVE_BACK_H_
#define FAIRLEAD_BINDING_GIVE_BACK_H_

#include <napi.h>

namespace fairlead::binding {

/** releaseFilePages(): number */
Napi::Value ReleaseFilePages(const Napi::CallbackInfo& info);
/**
 * startCollection(): void. V8 collects its heap in steps, and mostly by other threads, as it does
 * when memory outside of its heap grows.
 */
Napi::Value StartCollection(const Napi::CallbackInfo& info);
/** trimMalloc(): void. It does nothing where malloc is not glibc's. */
Napi::Value TrimMalloc(const Napi::CallbackInfo& info);

}  // namespace fairlead::binding

#endif  // FAIRLEAD_BINDING_GIVE_BACK_H_
