// Finds the process that listens on an abstract Unix socket of this network namespace.
#ifndef FAIRLEAD_LOCAL_LISTENER_H_
#define FAIRLEAD_LOCAL_LISTENER_H_

#include <sys/types.h>

#include <expected>
#include <optional>
#include <string_view>

#include "base/system_error.h"

namespace fairlead::local {

/** The process that called listen(2), from SO_PEERCRED. Another one may hold the socket by now. */
struct Listener {
  /** In our PID namespace; 0 = the process is not visible there. */
  pid_t pid;
  /** Effective user id, in our user namespace. */
  uid_t uid;
};

/**
 * Connects to find the listener. `name` is without its leading NUL. Nothing when no process
 * listens. EAGAIN: a process listens, and its queue of connections is full.
 */
std::expected<std::optional<Listener>, SystemError> FindListener(std::string_view name) noexcept;

}  // namespace fairlead::local

#endif  // FAIRLEAD_LOCAL_LISTENER_H_
