#include "bpf/netns_cookie.h"

#include <sys/socket.h>

#include "base/file_descriptor.h"

namespace fairlead::bpf {

// Older headers lack it.
#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71
#endif

std::expected<std::uint64_t, SystemError> NetnsCookie() {
  const FileDescriptor any(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!any.valid()) return std::unexpected(SystemError::Last("opening a socket"));
  std::uint64_t cookie = 0;
  socklen_t length = sizeof(cookie);
  if (getsockopt(any.get(), SOL_SOCKET, SO_NETNS_COOKIE, &cookie, &length) != 0) {
    return std::unexpected(SystemError::Last("getsockopt SO_NETNS_COOKIE (Linux 5.14)"));
  }
  return cookie;
}

}  // namespace fairlead::bpf
