// Who listens on an abstract Unix socket of this network namespace.
#ifndef FAIRLEAD_LOCAL_LISTENER_H_
#define FAIRLEAD_LOCAL_LISTENER_H_

#include <sys/types.h>

#include <expected>
#include <optional>
#include <string_view>

#include "base/system_error.h"

namespace fairlead::local {

/** As the kernel knows it (SO_PEERCRED): who called listen(2), whoever holds the socket now. */
struct Listener {
  /** In our PID namespace; 0 = it is in none that we see. */
  pid_t pid;
  /** Effective, in our user namespace. */
  uid_t uid;
};

/**
 * `name` is without the byte 0 that begins it. Nothing when nobody listens. EAGAIN: somebody does,
 * and has as many connections waiting as may.
 */
std::expected<std::optional<Listener>, SystemError> FindListener(std::string_view name) noexcept;

}  // namespace fairlead::local

#endif  // FAIRLEAD_LOCAL_LISTENER_H_
