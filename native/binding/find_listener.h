// The functions `boundPorts`, `findListener` and `openListener` that JavaScript sees.
#ifndef FAIRLEAD_BINDING_FIND_LISTENER_H_
#define FAIRLEAD_BINDING_FIND_LISTENER_H_

#include <napi.h>

namespace fairlead::binding {

/** boundPorts(): Uint8Array */
Napi::Value BoundPorts(const Napi::CallbackInfo& info);

/** findListener(name: string): Listener | undefined, as src/kernel/addon.ts has it. */
Napi::Value FindListener(const Napi::CallbackInfo& info);

/** openListener(name: string): number */
Napi::Value OpenListener(const Napi::CallbackInfo& info);

}  // namespace fairlead::binding

#endif  // FAIRLEAD_BINDING_FIND_LISTENER_H_
