#include "local/bound_ports.h"

#include <arpa/inet.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <span>
#include <utility>

#include "base/file_descriptor.h"
#include "wire/attr_reader.h"

namespace fairlead::local {

namespace {

constexpr std::size_t kDumpBytes = 32UL * 1024;

struct Question {
  std::uint8_t family;
  std::uint8_t protocol;
  /** A UDP socket without a peer is in the state of a closed connection. */
  std::uint8_t state;
};

constexpr std::array<Question, 4> kQuestions{{{AF_INET, IPPROTO_TCP, TCP_LISTEN},
                                              {AF_INET6, IPPROTO_TCP, TCP_LISTEN},
                                              {AF_INET, IPPROTO_UDP, TCP_CLOSE},
                                              {AF_INET6, IPPROTO_UDP, TCP_CLOSE}}};

bool Ask(const FileDescriptor& diag, const Question& question) noexcept {
  struct {
    nlmsghdr header;
    inet_diag_req_v2 request;
  } message{};
  message.header.nlmsg_len = sizeof message;
  message.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  message.header.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
  message.request.sdiag_family = question.family;
  message.request.sdiag_protocol = question.protocol;
  message.request.idiag_states = 1U << question.state;
  return ::send(diag.get(), &message, sizeof message, 0) == sizeof message;
}

/** Appends the socket's entry. A socket that is bound to no port has none. */
void AddEntry(std::span<const std::uint8_t> payload, std::uint8_t protocol,
              std::vector<std::uint8_t>& entries) {
  inet_diag_msg socket{};
  if (payload.size() < sizeof socket) return;
  std::memcpy(&socket, payload.data(), sizeof socket);
  if (socket.id.idiag_sport == 0 || entries.size() >= kBoundPortsMax * kBoundPortBytes) return;
  const bool is_v4 = socket.idiag_family == AF_INET;
  std::uint8_t family = 4;
  if (!is_v4) {
    const wire::AttrTable<INET_DIAG_SKV6ONLY> attributes(payload.subspan(sizeof socket));
    family = attributes.U8(INET_DIAG_SKV6ONLY) != 0 ? 6 : kBothFamilies;
  }
  std::array<std::uint8_t, kBoundPortBytes> entry{family, protocol};
  std::memcpy(&entry[2], &socket.id.idiag_sport, sizeof socket.id.idiag_sport);
  std::memcpy(&entry[4], socket.id.idiag_src, is_v4 ? 4 : 16);
  const std::uint32_t inode = htonl(socket.idiag_inode);
  std::memcpy(&entry[20], &inode, sizeof inode);
  entries.insert(entries.end(), entry.begin(), entry.end());
}

/** The errno of a message of the kernel; 0 = it is over without one. */
int ErrorIn(const wire::Message& message) noexcept {
  return -static_cast<std::int32_t>(wire::ReadU32Host(message.payload, 0));
}

std::expected<void, SystemError> ReadAnswer(const FileDescriptor& diag, std::uint8_t protocol,
                                            std::vector<std::uint8_t>& entries) {
  std::array<std::uint8_t, kDumpBytes> buffer;
  for (;;) {
    const ssize_t size = ::recv(diag.get(), buffer.data(), buffer.size(), 0);
    if (size <= 0) return std::unexpected(SystemError::Last("recv NETLINK_SOCK_DIAG"));
    wire::MessageReader reader({buffer.data(), static_cast<std::size_t>(size)});
    while (const auto message = reader.Next()) {
      if (message->type == SOCK_DIAG_BY_FAMILY) {
        AddEntry(message->payload, protocol, entries);
        continue;
      }
      const int error = ErrorIn(*message);
      if (error == 0) return {};
      return std::unexpected(SystemError{error, "dump NETLINK_SOCK_DIAG"});
    }
    if (reader.malformed()) {
      return std::unexpected(SystemError{EBADMSG, "dump NETLINK_SOCK_DIAG"});
    }
  }
}

}  // namespace

std::expected<std::vector<std::uint8_t>, SystemError> BoundPorts() {
  const FileDescriptor diag(
      ::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
  if (!diag.valid()) return std::unexpected(SystemError::Last("socket NETLINK_SOCK_DIAG"));
  std::vector<std::uint8_t> entries;
  for (const Question& question : kQuestions) {
    if (!Ask(diag, question)) {
      return std::unexpected(SystemError::Last("send NETLINK_SOCK_DIAG"));
    }
    if (auto read = ReadAnswer(diag, question.protocol, entries); !read) {
      return std::unexpected(std::move(read).error());
    }
  }
  return entries;
}

}  // namespace fairlead::local
