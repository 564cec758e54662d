#include "wire/socket.h"

#include <arpa/inet.h>
#include <linux/filter.h>
#include <linux/netlink.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <climits>
#include <cstddef>
#include <iterator>
#include <string>

#include "wire/trace.h"

namespace fairlead::wire {

std::expected<Socket, SystemError> Socket::Open(const SocketOptions& options) {
  FileDescriptor fd(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, options.protocol));
  if (!fd.valid()) return std::unexpected(SystemError::Last("socket AF_NETLINK"));
  sockaddr_nl address{};
  address.nl_family = AF_NETLINK;
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    return std::unexpected(SystemError::Last("bind AF_NETLINK"));
  }
  if (options.group != 0 && ::setsockopt(fd.get(), SOL_NETLINK, NETLINK_ADD_MEMBERSHIP,
                                         &options.group, sizeof(options.group)) != 0) {
    return std::unexpected(SystemError::Last("setsockopt NETLINK_ADD_MEMBERSHIP"));
  }
  socklen_t length = sizeof(address);
  if (::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &length) != 0) {
    return std::unexpected(SystemError::Last("getsockname AF_NETLINK"));
  }
  return Socket(std::move(fd), address.nl_pid, options);
}

Socket::Socket(FileDescriptor fd, std::uint32_t port, const SocketOptions& options)
    : fd_(std::move(fd)),
      port_(port),
      family_header_bytes_(options.family_header_bytes),
      trace_(TraceWanted()),
      sequence_(1),
      datagram_(std::make_unique_for_overwrite<std::uint8_t[]>(kDatagramBytesMax)) {
  SetFlag(NETLINK_EXT_ACK);
  SetFlag(NETLINK_CAP_ACK);
  SetFlag(NETLINK_GET_STRICT_CHK);
  if (options.receive_buffer_bytes > 0) {
    GrowReceiveBuffer(static_cast<std::size_t>(options.receive_buffer_bytes));
  }
}

// A kernel without the option works as well, but its errors say less.
void Socket::SetFlag(int option) noexcept {
  const int on = 1;
  static_cast<void>(::setsockopt(fd_.get(), SOL_NETLINK, option, &on, sizeof(on)));
}

void Socket::GrowReceiveBuffer(std::size_t bytes) noexcept {
  if (bytes <= receive_buffer_bytes_) return;
  const int size = static_cast<int>(std::min<std::size_t>(bytes, INT_MAX / 2));
  if (::setsockopt(fd_.get(), SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size)) != 0) {
    static_cast<void>(::setsockopt(fd_.get(), SOL_SOCKET, SO_RCVBUF, &size, sizeof(size)));
  }
  receive_buffer_bytes_ = bytes;
}

std::size_t Socket::ReceiveBufferBytes() const noexcept {
  int bytes = 0;
  socklen_t length = sizeof(bytes);
  static_cast<void>(::getsockopt(fd_.get(), SOL_SOCKET, SO_RCVBUF, &bytes, &length));
  return static_cast<std::size_t>(bytes);
}

// A datagram must fit the send buffer (netlink_sendmsg: EMSGSIZE). The kernel doubles the given
// number for its own overhead. SO_SNDBUFFORCE ignores net.core.wmem_max and needs CAP_NET_ADMIN.
// Without it a send above that limit fails with EMSGSIZE.
void Socket::GrowSendBuffer(std::size_t bytes) noexcept {
  const std::size_t wanted = bytes + 4096;
  if (wanted <= send_buffer_bytes_) return;
  const int size = static_cast<int>(std::min<std::size_t>(wanted, INT_MAX / 2));
  if (::setsockopt(fd_.get(), SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof(size)) != 0) {
    static_cast<void>(::setsockopt(fd_.get(), SOL_SOCKET, SO_SNDBUF, &size, sizeof(size)));
  }
  send_buffer_bytes_ = wanted;
}

// All messages of a datagram are about one sender. A filter reads numbers in network order.
void Socket::DropFrom(std::uint32_t port) noexcept {
  sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(nlmsghdr, nlmsg_pid)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, htonl(port), 0, 1),
      BPF_STMT(BPF_RET | BPF_K, 0),
      BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),
  };
  const sock_fprog program{std::size(code), code};
  static_cast<void>(
      ::setsockopt(fd_.get(), SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)));
}

std::expected<void, SystemError> Socket::Send(std::span<const std::uint8_t> bytes) {
  GrowSendBuffer(bytes.size());
  if (trace_) Trace("->", bytes, family_header_bytes_);
  sockaddr_nl kernel{};
  kernel.nl_family = AF_NETLINK;
  ssize_t sent;
  do {
    sent = ::sendto(fd_.get(), bytes.data(), bytes.size(), 0,
                    reinterpret_cast<const sockaddr*>(&kernel), sizeof(kernel));
  } while (sent < 0 && errno == EINTR);
  if (sent >= 0) return {};
  const int error = errno;
  const std::string call = "send of " + std::to_string(bytes.size()) + " bytes by netlink";
  const char* hint = error == EMSGSIZE ? " (above net.core.wmem_max, without CAP_NET_ADMIN)" : "";
  return std::unexpected(SystemError{error, call + hint});
}

std::expected<Socket::Received, SystemError> Socket::Receive(int timeout_ms) {
  bool waited = timeout_ms == 0;
  for (;;) {
    const ssize_t length =
        ::recv(fd_.get(), datagram_.get(), kDatagramBytesMax, MSG_DONTWAIT | MSG_TRUNC);
    if (length >= 0) {
      if (static_cast<std::size_t>(length) > kDatagramBytesMax)
        return Received{Outcome::kOverrun, {}};
      const std::span<const std::uint8_t> datagram(datagram_.get(),
                                                   static_cast<std::size_t>(length));
      if (trace_) Trace("<-", datagram, family_header_bytes_);
      return Received{Outcome::kData, datagram};
    }
    if (errno == EINTR) continue;
    if (errno == ENOBUFS) return Received{Outcome::kOverrun, {}};
    if (errno != EAGAIN) return std::unexpected(SystemError::Last("receive by netlink"));
    if (waited) return Received{};
    pollfd wait{fd_.get(), POLLIN, 0};
    // One wait is enough: the next recv reports whatever ended it.
    if (::poll(&wait, 1, timeout_ms) < 0 && errno != EINTR) {
      return std::unexpected(SystemError::Last("poll netlink"));
    }
    waited = true;
  }
}

}  // namespace fairlead::wire
