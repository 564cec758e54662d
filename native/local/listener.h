// An abstract Unix socket of this network namespace: listens on it, and finds who does.
#ifndef FAIRLEAD_LOCAL_LISTENER_H_
#define FAIRLEAD_LOCAL_LISTENER_H_

#include <sys/types.h>

#include <expected>
#include <optional>
#include <string_view>

#include "base/file_descriptor.h"
#include "base/system_error.h"

namespace fairlead::local {

/** The process that called listen(2), from SO_PEERCRED. Another one may hold the socket by now. */
struct Listener {
  /** In our PID namespace; 0 = the process is not visible there. */
  pid_t pid;
  /** Effective user id, in our user namespace. */
  uid_t uid;
  /**
   * Whether the process that made the socket by `OpenListener` had CAP_NET_ADMIN. Nothing: this
   * process cannot know, because it does not have it, or the kernel does not show sockets.
   */
  std::optional<bool> administers_net;
};

/**
 * Listens, and proves that this process has CAP_NET_ADMIN if it has: the socket's send buffer,
 * which it does not use, gets a size that nothing else can give it. EADDRINUSE: another process has
 * the name.
 */
std::expected<FileDescriptor, SystemError> OpenListener(std::string_view name) noexcept;

/**
 * Connects to find the listener. `name` is without its leading NUL. Nothing when no process
 * listens. EAGAIN: a process listens, and its queue of connections is full.
 */
std::expected<std::optional<Listener>, SystemError> FindListener(std::string_view name) noexcept;

}  // namespace fairlead::local

#endif  // FAIRLEAD_LOCAL_LISTENER_H_
