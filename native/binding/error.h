// Errors of system calls, as JavaScript sees them.
#ifndef FAIRLEAD_BINDING_ERROR_H_
#define FAIRLEAD_BINDING_ERROR_H_

#include <node_api.h>

#include "base/system_error.h"

namespace fairlead::binding {

/** An Error with `errno` (a number) and `syscall`. Null when the environment is shutting down. */
napi_value ToError(napi_env env, const SystemError& failure);

}  // namespace fairlead::binding

#endif  // FAIRLEAD_BINDING_ERROR_H_
