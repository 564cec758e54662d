// Objects of JavaScript whose class is known before they are unwrapped.
#ifndef FAIRLEAD_BINDING_TAGGED_WRAP_H_
#define FAIRLEAD_BINDING_TAGGED_WRAP_H_

#include <napi.h>

#include "binding/type_error.h"

namespace fairlead::binding {

/**
 * The base of a class `T`, which has a `kTag` of its own: 128 random bits. Each call of a method
 * begins with Unwrap.
 */
template <typename T>
class TaggedWrap : public Napi::ObjectWrap<T> {
 public:
  explicit TaggedWrap(const Napi::CallbackInfo& info) : Napi::ObjectWrap<T>(info) {
    info.This().As<Napi::Object>().TypeTag(&T::kTag);
  }

  /** Null, with a pending TypeError, for an object of another class. */
  static T* Unwrap(Napi::Object object) {
    if (object.CheckTypeTag(&T::kTag)) return Napi::ObjectWrap<T>::Unwrap(object);
    if (!object.Env().IsExceptionPending()) {
      ThrowTypeError(object.Env(), "a method of this class needs an object of it");
    }
    return nullptr;
  }
};

}  // namespace fairlead::binding

#endif  // FAIRLEAD_BINDING_TAGGED_WRAP_H_
