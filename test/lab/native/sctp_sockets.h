// SCTP by one-to-one style sockets (RFC 6458 section 4) of a kernel that has them.
#pragma once

#include <string>
#include <thread>

#include "address.h"

namespace lab {

class SctpSocket : public Association {
 public:
  // Asking for a socket also loads the kernel's module.
  static bool Available() {
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, IPPROTO_SCTP);
    if (fd >= 0) close(fd);
    return fd >= 0;
  }

  ~SctpSocket() override {
    if (fd_ >= 0) close(fd_);
  }

  // Bound to one address: a client bound to none would offer all its addresses in the INIT, and
  // addresses in the payload survive no NAT.
  int Open(const Address& own, const Address& to, int64_t timeout_ms) override {
    fd_ = BoundTo(own);
    if (fd_ < 0) return errno;
    SetTimeouts(fd_, timeout_ms);
    return connect(fd_, to.raw(), to.length) == 0 ? 0 : errno == EINPROGRESS ? EAGAIN : errno;
  }

  int Ask(int64_t timeout_ms, std::string* answer) override {
    char buffer[512];
    SetTimeouts(fd_, timeout_ms);
    if (send(fd_, "?", 1, MSG_NOSIGNAL) != 1) return errno;
    const ssize_t size = recv(fd_, buffer, sizeof(buffer), 0);
    if (size <= 0) return size < 0 ? errno : EPIPE;
    answer->assign(buffer, static_cast<size_t>(size));
    return 0;
  }

  // Serves until the process ends.
  static int Serve(const Address& at, const std::string& name) {
    const int listener = BoundTo(at);
    if (listener < 0 || listen(listener, SOMAXCONN) != 0) return errno;
    std::thread([listener, name, port = at.port()] {
      for (int fd; (fd = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC)) >= 0;) {
        std::thread(Answer, fd, name, port).detach();
      }
    }).detach();
    return 0;
  }

 private:
  static int BoundTo(const Address& at) {
    const int fd = socket(at.family(), SOCK_STREAM | SOCK_CLOEXEC, IPPROTO_SCTP);
    const int on = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    // Closing sends ABORT: no shutdown exchange outlives the test.
    const linger no_linger{1, 0};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &no_linger, sizeof(no_linger));
    return bind(fd, at.raw(), at.length) == 0 ? fd : -1;
  }

  static void Answer(int fd, const std::string& name, uint16_t port) {
    char question[64];
    Address peer;
    getpeername(fd, peer.raw(), &peer.length);
    const std::string answer = IdentityJson(name, port, peer);
    while (recv(fd, question, sizeof(question), 0) > 0 &&
           send(fd, answer.data(), answer.size(), MSG_NOSIGNAL) > 0) {
    }
    close(fd);
  }

  int fd_ = -1;
};

}  // namespace lab
