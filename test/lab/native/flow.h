// Connections of a client. The first question also makes the connection.
#pragma once

#include <netinet/tcp.h>

#include <string>
#include <utility>

#include "address.h"
#include "event_loop.h"
#include "reply.h"

namespace lab {

class Flow {
 public:
  Flow() = default;
  Flow(const Flow&) = delete;
  Flow& operator=(const Flow&) = delete;
  virtual ~Flow() = default;
  // Asks the server to name itself. `deliver` gets the next event, or the end if it is known
  // already, perhaps before this returns; it may delete the flow. Only SCTP limits the time itself.
  virtual void Ask(int64_t timeout_ms, Deliver deliver) = 0;
  // The answer is not waited for any more.
  virtual void GiveUp() = 0;
  // TCP only, after a first answer: bytes without end. The server sets the rate.
  virtual void StartDownload() {}
};

// Binds to the port of `own`, and to its address if it has one. Returns an errno, 0 for success.
inline int BindSource(int fd, const Address& own, int family) {
  Address at = own;
  if (own.family() == AF_UNSPEC) at.Parse(family == AF_INET ? "0.0.0.0" : "::", own.port());
  // A flow of the other family may have the same port.
  const int on = 1;
  if (family == AF_INET6) setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
  return bind(fd, at.raw(), at.length) == 0 ? 0 : errno;
}

inline std::string OwnHost(int fd) {
  Address own;
  getsockname(fd, own.raw(), &own.length);
  return own.host();
}

inline int SocketError(int fd) {
  int error = 0;
  socklen_t length = sizeof(error);
  getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length);
  return error;
}

inline void ResetWhenClosed(int fd) {
  const linger no_linger{1, 0};
  setsockopt(fd, SOL_SOCKET, SO_LINGER, &no_linger, sizeof(no_linger));
}

class TcpFlow : public Flow {
 public:
  TcpFlow(EventLoop* loop, const Address& own, const Address& to) : loop_(loop) {
    fd_ = socket(to.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    const int on = 1;
    setsockopt(fd_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    int error = BindSource(fd_, own, to.family());
    if (error == 0 && connect(fd_, to.raw(), to.length) != 0) error = errno;
    is_connecting_ = error == EINPROGRESS;
    if (error != 0 && !is_connecting_) {
      mailbox_.End(Failed(error));
      return;
    }
    loop_->Watch(fd_, is_connecting_ ? EPOLLOUT : EPOLLIN, [this](uint32_t) { OnEvent(); });
    is_watched_ = true;
  }

  ~TcpFlow() override {
    Unwatch();
    // RST instead of FIN, so that no TIME_WAIT keeps the source port.
    if (!is_connecting_) ResetWhenClosed(fd_);
    close(fd_);
  }

  void Ask(int64_t, Deliver deliver) override {
    if (!mailbox_.Await(std::move(deliver))) return;
    // During a download it asks for its end, whose last byte is the answer.
    Write(is_downloading_ ? "enough\n" : "?\n");
  }

  void GiveUp() override { mailbox_.GiveUp(); }

  void StartDownload() override {
    if (server_.kind != Reply::kAnswered) return;
    is_downloading_ = true;
    Write("send\n");
  }

 private:
  // May delete this.
  void OnEvent() {
    if (is_connecting_) {
      is_connecting_ = false;
      if (const int error = SocketError(fd_)) return End(Failed(error));
      loop_->Change(fd_, EPOLLIN);
      const std::string pending = std::exchange(pending_, "");
      return Write(pending);
    }
    char buffer[65536];
    const ssize_t size = read(fd_, buffer, sizeof(buffer));
    if (size > 0) return OnData(std::string(buffer, static_cast<size_t>(size)));
    if (size == 0) {
      shutdown(fd_, SHUT_WR);
      return End({Reply::kClosed});
    }
    if (errno != EAGAIN && errno != EINTR) End(Failed(errno));
  }

  void OnData(const std::string& data) {
    if (is_downloading_) {
      is_downloading_ = data.back() != '\n';
      if (!is_downloading_) mailbox_.Answer(server_);
      return;
    }
    line_ += data;
    const size_t end = line_.rfind('\n');
    if (end == std::string::npos) return;
    // A question that was given up may be answered together with the next one.
    const size_t before = end == 0 ? std::string::npos : line_.rfind('\n', end - 1);
    const size_t start = before == std::string::npos ? 0 : before + 1;
    server_ = {Reply::kAnswered, line_.substr(start, end - start), OwnHost(fd_)};
    line_.erase(0, end + 1);
    mailbox_.Answer(server_);
  }

  // Until the connection is made, words wait.
  void Write(const std::string& words) {
    if (is_connecting_) {
      pending_ += words;
    } else if (!words.empty() && send(fd_, words.data(), words.size(), MSG_NOSIGNAL) < 0 &&
               errno != EAGAIN) {
      End(Failed(errno));
    }
  }

  void End(const Reply& reply) {
    Unwatch();
    mailbox_.End(reply);
  }

  void Unwatch() {
    if (is_watched_) loop_->Forget(fd_);
    is_watched_ = false;
  }

  EventLoop* const loop_;
  int fd_ = -1;
  bool is_watched_ = false;
  bool is_connecting_ = false;
  bool is_downloading_ = false;
  std::string pending_;
  std::string line_;
  Reply server_;
  Mailbox mailbox_;
};

// A connected UDP socket, because only these get ICMP errors.
class UdpFlow : public Flow {
 public:
  UdpFlow(EventLoop* loop, const Address& own, const Address& to) : loop_(loop) {
    fd_ = socket(to.family(), SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int error = BindSource(fd_, own, to.family());
    if (error == 0 && connect(fd_, to.raw(), to.length) != 0) error = errno;
    if (error != 0) {
      mailbox_.End(Failed(error));
      return;
    }
    loop_->Watch(fd_, EPOLLIN, [this](uint32_t) { OnEvent(); });
    is_watched_ = true;
  }

  ~UdpFlow() override {
    if (is_watched_) loop_->Forget(fd_);
    close(fd_);
  }

  void Ask(int64_t, Deliver deliver) override {
    if (!mailbox_.Await(std::move(deliver))) return;
    // An error of an earlier question, which nothing waited for.
    SocketError(fd_);
    if (send(fd_, "?", 1, MSG_NOSIGNAL) < 0) mailbox_.Answer(Failed(errno));
  }

  void GiveUp() override { mailbox_.GiveUp(); }

 private:
  // May delete this.
  void OnEvent() {
    char buffer[2048];
    const ssize_t size = recv(fd_, buffer, sizeof(buffer), 0);
    if (size >= 0) {
      const std::string answer(buffer, static_cast<size_t>(size));
      return mailbox_.Answer({Reply::kAnswered, answer, OwnHost(fd_)});
    }
    if (errno != EAGAIN && errno != EINTR) mailbox_.Answer(Failed(errno));
  }

  EventLoop* const loop_;
  int fd_ = -1;
  bool is_watched_ = false;
  Mailbox mailbox_;
};

}  // namespace lab
