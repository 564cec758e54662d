// The function `releaseFilePages` that JavaScript sees.
#ifndef FAIRLEAD_BINDING_RELEASE_FILE_PAGES_H_
#define FAIRLEAD_BINDING_RELEASE_FILE_PAGES_H_

#include <napi.h>

namespace fairlead::binding {

/** releaseFilePages(): number */
Napi::Value ReleaseFilePages(const Napi::CallbackInfo& info);

}  // namespace fairlead::binding

#endif  // FAIRLEAD_BINDING_RELEASE_FILE_PAGES_H_
