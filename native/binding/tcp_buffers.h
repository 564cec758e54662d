// Buffers of TCP sockets, as JavaScript sees them.
#ifndef FAIRLEAD_BINDING_TCP_BUFFERS_H_
#define FAIRLEAD_BINDING_TCP_BUFFERS_H_

#include <napi.h>

namespace fairlead::binding {

/** limitBuffers(fd: number, bytes: number): void */
Napi::Value LimitBuffers(const Napi::CallbackInfo& info);
/** bufferedBytes(fd: number): number */
Napi::Value BufferedBytes(const Napi::CallbackInfo& info);

}  // namespace fairlead::binding

#endif  // FAIRLEAD_BINDING_TCP_BUFFERS_H_
