// Threads other than the thread of JavaScript.
#ifndef FAIRLEAD_BINDING_THREAD_H_
#define FAIRLEAD_BINDING_THREAD_H_

#include <pthread.h>

#include <expected>
#include <string>

#include "base/system_error.h"

namespace fairlead::binding {

/** Starts a thread that runs `run(self)`. It blocks all signals, which Node's threads handle. */
std::expected<void, SystemError> StartThread(pthread_t& thread, void (*run)(void* self),
                                             void* self);

/** Moves the calling thread into the namespace of a path such as /run/netns/a. Empty = stays. */
std::expected<void, SystemError> EnterNamespace(const std::string& path);

}  // namespace fairlead::binding

#endif  // FAIRLEAD_BINDING_THREAD_H_
