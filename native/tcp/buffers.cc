#include "tcp/buffers.h"

#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <array>

namespace fairlead::tcp {

namespace {

/** An error changes nothing: the limits of the system stay. */
bool Set(int fd, int level, int option, std::int32_t value) noexcept {
  return ::setsockopt(fd, level, option, &value, sizeof value) == 0;
}

}  // namespace

void LimitBuffers(int fd, std::int32_t bytes) noexcept {
  if (!Set(fd, SOL_SOCKET, SO_SNDBUFFORCE, bytes)) Set(fd, SOL_SOCKET, SO_SNDBUF, bytes);
  if (!Set(fd, SOL_SOCKET, SO_RCVBUFFORCE, bytes)) Set(fd, SOL_SOCKET, SO_RCVBUF, bytes);
  // The window of a socket that is connected has a limit of its own, by the buffer that it had
  // (tcp_init_buffer_space), which a larger buffer does not raise.
  Set(fd, IPPROTO_TCP, TCP_WINDOW_CLAMP, bytes);
}

std::uint32_t BufferedBytes(int fd) noexcept {
  std::array<std::uint32_t, SK_MEMINFO_VARS> values{};
  socklen_t size = sizeof values;
  if (::getsockopt(fd, SOL_SOCKET, SO_MEMINFO, values.data(), &size) != 0) return 0;
  return values[SK_MEMINFO_RMEM_ALLOC] + values[SK_MEMINFO_WMEM_QUEUED] +
         values[SK_MEMINFO_FWD_ALLOC] + values[SK_MEMINFO_BACKLOG];
}

}  // namespace fairlead::tcp
