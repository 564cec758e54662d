#include "local/listener.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstddef>
#include <cstring>

#include "base/file_descriptor.h"

namespace fairlead::local {

std::expected<std::optional<Listener>, SystemError> FindListener(std::string_view name) noexcept {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (name.size() > sizeof address.sun_path - 1) {
    return std::unexpected(SystemError{ENAMETOOLONG, "connect"});
  }
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  const auto length =
      static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());

  const FileDescriptor fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return std::unexpected(SystemError::Last("socket"));
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0) {
    if (errno == ECONNREFUSED) return std::nullopt;
    return std::unexpected(SystemError::Last("connect"));
  }
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(fd.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) {
    return std::unexpected(SystemError::Last("getsockopt"));
  }
  return Listener{peer.pid, peer.uid};
}

}  // namespace fairlead::local
