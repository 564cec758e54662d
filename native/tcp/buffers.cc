#include "tcp/buffers.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>

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
  return BufferedBytes(values);
}

std::uint32_t BufferedBytes(const std::array<std::uint32_t, SK_MEMINFO_VARS>& values) noexcept {
  // What the socket keeps ready is negative while it owes memory (sk_forward_alloc). The values are
  // not of one moment, so that the sum may be, too.
  const auto ready = static_cast<std::int32_t>(values[SK_MEMINFO_FWD_ALLOC]);
  const std::int64_t sum = std::int64_t{values[SK_MEMINFO_RMEM_ALLOC]} +
                           values[SK_MEMINFO_WMEM_QUEUED] + values[SK_MEMINFO_BACKLOG] + ready;
  return static_cast<std::uint32_t>(std::clamp<std::int64_t>(sum, 0, UINT32_MAX));
}

}  // namespace fairlead::tcp
