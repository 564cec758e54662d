#include "local/listener.h"

#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "wire/attr_reader.h"

namespace fairlead::local {

namespace {

/** The most that SO_SNDBUFFORCE takes; the kernel keeps twice as much. */
constexpr int kProof = INT_MAX / 2;
constexpr std::uint32_t kProven = 2 * static_cast<std::uint32_t>(kProof);
constexpr int kBacklog = 16;
constexpr std::size_t kReceiveBytes = 32UL * 1024;

struct Address {
  sockaddr_un socket{};
  socklen_t length = 0;

  const sockaddr* get() const noexcept { return reinterpret_cast<const sockaddr*>(&socket); }
};

std::optional<Address> AddressOf(std::string_view name) noexcept {
  Address address;
  address.socket.sun_family = AF_UNIX;
  if (name.size() > sizeof address.socket.sun_path - 1) return std::nullopt;
  std::memcpy(address.socket.sun_path + 1, name.data(), name.size());
  address.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return address;
}

/** Needs CAP_NET_ADMIN in the first user namespace. */
bool Prove(const FileDescriptor& fd) noexcept {
  return ::setsockopt(fd.get(), SOL_SOCKET, SO_SNDBUFFORCE, &kProof, sizeof kProof) == 0;
}

bool SendRequest(const FileDescriptor& diag) noexcept {
  struct {
    nlmsghdr header;
    unix_diag_req request;
  } message{};
  message.header.nlmsg_len = sizeof message;
  message.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  message.header.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
  message.request.sdiag_family = AF_UNIX;
  message.request.udiag_states = 1U << TCP_LISTEN;
  message.request.udiag_show = UDIAG_SHOW_NAME | UDIAG_SHOW_MEMINFO;
  return ::send(diag.get(), &message, sizeof message, 0) == sizeof message;
}

/** Whether the message is about the stream socket of that name, and what it proves. */
std::optional<bool> ProofIn(const wire::Message& message, std::string_view name) noexcept {
  unix_diag_msg socket{};
  if (message.payload.size() < sizeof socket) return std::nullopt;
  std::memcpy(&socket, message.payload.data(), sizeof socket);
  if (socket.udiag_type != SOCK_STREAM) return std::nullopt;
  const wire::AttrTable<UNIX_DIAG_MAX> attributes(message.payload.subspan(sizeof socket));
  const auto bound = attributes.Bytes(UNIX_DIAG_NAME);
  if (bound.size() != name.size() + 1 || bound[0] != 0 ||
      !std::equal(name.begin(), name.end(), bound.begin() + 1)) {
    return std::nullopt;
  }
  constexpr std::size_t kAt = SK_MEMINFO_SNDBUF * sizeof(std::uint32_t);
  const auto memory = attributes.Bytes(UNIX_DIAG_MEMINFO);
  if (memory.size() < kAt + sizeof(std::uint32_t)) return std::nullopt;
  return wire::ReadU32Host(memory.subspan(kAt), 0) >= kProven;
}

/** Nothing: no such socket is shown. */
std::optional<bool> ReadProof(std::string_view name) noexcept {
  const FileDescriptor diag(
      ::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
  if (!diag.valid() || !SendRequest(diag)) return std::nullopt;
  std::array<std::uint8_t, kReceiveBytes> buffer;
  std::optional<bool> proof;
  for (;;) {
    const ssize_t size = ::recv(diag.get(), buffer.data(), buffer.size(), 0);
    if (size <= 0) return std::nullopt;
    wire::MessageReader reader({buffer.data(), static_cast<std::size_t>(size)});
    while (const auto message = reader.Next()) {
      if (message->type == NLMSG_DONE) return proof;
      if (message->type != SOCK_DIAG_BY_FAMILY) return std::nullopt;
      if (const auto found = ProofIn(*message, name)) proof = found;
    }
    if (reader.malformed()) return std::nullopt;
  }
}

}  // namespace

std::expected<FileDescriptor, SystemError> OpenListener(std::string_view name) noexcept {
  const auto address = AddressOf(name);
  if (!address) return std::unexpected(SystemError{ENAMETOOLONG, "bind"});
  FileDescriptor fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return std::unexpected(SystemError::Last("socket"));
  // Before others can find it.
  Prove(fd);
  if (::bind(fd.get(), address->get(), address->length) != 0) {
    return std::unexpected(SystemError::Last("bind"));
  }
  if (::listen(fd.get(), kBacklog) != 0) return std::unexpected(SystemError::Last("listen"));
  return fd;
}

std::expected<std::optional<Listener>, SystemError> FindListener(std::string_view name) noexcept {
  const auto address = AddressOf(name);
  if (!address) return std::unexpected(SystemError{ENAMETOOLONG, "connect"});
  const FileDescriptor fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return std::unexpected(SystemError::Last("socket"));
  if (::connect(fd.get(), address->get(), address->length) != 0) {
    if (errno == ECONNREFUSED) return std::nullopt;
    return std::unexpected(SystemError::Last("connect"));
  }
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(fd.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) {
    return std::unexpected(SystemError::Last("getsockopt"));
  }
  Listener listener{peer.pid, peer.uid, std::nullopt};
  if (Prove(fd)) listener.administers_net = ReadProof(name);
  return listener;
}

}  // namespace fairlead::local
