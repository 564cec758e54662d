// TypeErrors for JavaScript.
#ifndef FAIRLEAD_BINDING_TYPE_ERROR_H_
#define FAIRLEAD_BINDING_TYPE_ERROR_H_

#include <napi.h>

namespace fairlead::binding {

/** Leaves a TypeError pending. */
inline void ThrowTypeError(Napi::Env env, const char* words) {
  Napi::TypeError::New(env, words).ThrowAsJavaScriptException();
}

}  // namespace fairlead::binding

#endif  // FAIRLEAD_BINDING_TYPE_ERROR_H_
