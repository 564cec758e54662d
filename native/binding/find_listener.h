// The function `findListener` that JavaScript sees.
#ifndef FAIRLEAD_BINDING_FIND_LISTENER_H_
#define FAIRLEAD_BINDING_FIND_LISTENER_H_

#include <napi.h>

namespace fairlead::binding {

/** findListener(name: string): { pid: number, uid: number } | undefined */
Napi::Value FindListener(const Napi::CallbackInfo& info);

}  // namespace fairlead::binding

#endif  // FAIRLEAD_BINDING_FIND_LISTENER_H_
