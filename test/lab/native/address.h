// Socket addresses of both families, and small helpers that every part of an agent uses.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>

namespace lab {

struct Address {
  sockaddr_storage storage{};
  socklen_t length = sizeof(storage);

  // `text` is a literal address; `port` in host order. False when it is not an address.
  bool Parse(const std::string& text, uint16_t port) {
    auto* v4 = reinterpret_cast<sockaddr_in*>(&storage);
    auto* v6 = reinterpret_cast<sockaddr_in6*>(&storage);
    const bool is_v4 = inet_pton(AF_INET, text.c_str(), &v4->sin_addr) == 1;
    if (!is_v4 && inet_pton(AF_INET6, text.c_str(), &v6->sin6_addr) != 1) return false;
    storage.ss_family = is_v4 ? AF_INET : AF_INET6;
    length = is_v4 ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    set_port(port);
    return true;
  }

  int family() const { return storage.ss_family; }
  const sockaddr* raw() const { return reinterpret_cast<const sockaddr*>(&storage); }
  sockaddr* raw() { return reinterpret_cast<sockaddr*>(&storage); }

  // sin_port and sin6_port are at the same place.
  uint16_t port() const { return ntohs(reinterpret_cast<const sockaddr_in*>(&storage)->sin_port); }
  void set_port(uint16_t port) { reinterpret_cast<sockaddr_in*>(&storage)->sin_port = htons(port); }

  std::string host() const {
    char text[INET6_ADDRSTRLEN] = "";
    const auto* v4 = reinterpret_cast<const sockaddr_in*>(&storage);
    const auto* v6 = reinterpret_cast<const sockaddr_in6*>(&storage);
    const void* bytes = family() == AF_INET ? static_cast<const void*>(&v4->sin_addr)
                                            : static_cast<const void*>(&v6->sin6_addr);
    inet_ntop(family(), bytes, text, sizeof(text));
    return text;
  }
};

// Replaces the unset host of `own` by the source that the kernel would choose towards `to`.
inline bool ChooseSource(const Address& to, Address* own) {
  const uint16_t port = own->port();
  const int fd = socket(to.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0);
  own->length = sizeof(own->storage);
  const bool found =
      connect(fd, to.raw(), to.length) == 0 && getsockname(fd, own->raw(), &own->length) == 0;
  const int error = errno;
  close(fd);
  own->set_port(port);
  errno = error;
  return found;
}

// Blocking calls on `fd`, connect included, give up with EAGAIN or EINPROGRESS after this time.
inline void SetTimeouts(int fd, int64_t timeout_ms) {
  const timeval limit{timeout_ms / 1000, timeout_ms % 1000 * 1000};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
}

// What a server says about itself and the connection; the shape of `Identity` in outcome.ts.
inline std::string IdentityJson(const std::string& name, uint16_t port, const Address& peer) {
  return "{\"by\":\"" + name + "\",\"port\":" + std::to_string(port) + ",\"source\":\"" +
         peer.host() + "\",\"sourcePort\":" + std::to_string(peer.port()) + "}";
}

// A client's SCTP association. Each call blocks for `timeout_ms` at most and returns an errno: 0,
// EAGAIN for silence, ECONNREFUSED or ECONNRESET for ABORT, EPIPE for an orderly end.
class Association {
 public:
  virtual ~Association() = default;
  virtual int Open(const Address& own, const Address& to, int64_t timeout_ms) = 0;
  // Asks the server to name itself.
  virtual int Ask(int64_t timeout_ms, std::string* answer) = 0;
};

}  // namespace lab
