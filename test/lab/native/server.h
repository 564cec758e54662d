// Servers that name themselves: by TCP a line for each line that asks, by UDP a datagram.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "address.h"
#include "event_loop.h"
#include "flow.h"

namespace lab {

class Server {
 public:
  Server() = default;
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  virtual ~Server() = default;
  // Returns an errno, 0 for success.
  virtual int Start() = 0;
};

// One connection of a TCP server.
class TcpPeer {
 public:
  TcpPeer(EventLoop* loop, int fd, std::string name, std::function<void()> ended)
      : loop_(loop), fd_(fd), name_(std::move(name)), ended_(std::move(ended)) {
    loop_->Watch(fd_, EPOLLIN, [this](uint32_t events) { OnEvents(events); });
  }
  TcpPeer(const TcpPeer&) = delete;
  TcpPeer& operator=(const TcpPeer&) = delete;

  ~TcpPeer() {
    if (is_sending_) loop_->Cancel(timer_);
    loop_->Forget(fd_);
    close(fd_);
  }

  void Reset() { ResetWhenClosed(fd_); }

 private:
  static constexpr size_t kChunkBytes = 16'384;
  static constexpr int64_t kChunkIntervalMs = 5;
  // Of a client that does not read.
  static constexpr size_t kPendingBytesMax = 1 << 20;

  // Deletes this.
  void End() {
    const auto ended = ended_;
    ended();
  }

  // May delete this.
  void OnEvents(uint32_t events) {
    if ((events & EPOLLOUT) != 0 && !Flush()) return End();
    if ((events & ~static_cast<uint32_t>(EPOLLOUT)) == 0) return;
    char buffer[4096];
    const ssize_t size = read(fd_, buffer, sizeof(buffer));
    if (size < 0 && (errno == EAGAIN || errno == EINTR)) return;
    // Clients close by RST.
    if (size <= 0) return End();
    lines_.append(buffer, static_cast<size_t>(size));
    for (size_t end; (end = lines_.find('\n')) != std::string::npos;) {
      OnLine(lines_.substr(0, end));
      lines_.erase(0, end + 1);
    }
    if (!Flush()) End();
  }

  void OnLine(const std::string& line) {
    if (line == "?") {
      Address own, peer;
      getsockname(fd_, own.raw(), &own.length);
      getpeername(fd_, peer.raw(), &peer.length);
      pending_ += IdentityJson(name_, own.port(), peer) + "\n";
    } else if (line == "send") {
      if (!is_sending_) SendLater();
    } else {
      if (is_sending_) loop_->Cancel(timer_);
      is_sending_ = false;
      pending_ += '\n';
    }
  }

  void SendLater() {
    is_sending_ = true;
    timer_ = loop_->After(kChunkIntervalMs, [this] {
      is_sending_ = false;
      if (pending_.size() < kPendingBytesMax) pending_.append(kChunkBytes, '\0');
      if (!Flush()) return End();
      SendLater();
    });
  }

  // Sends what it can. False when the connection has ended.
  bool Flush() {
    while (!pending_.empty()) {
      const ssize_t sent = send(fd_, pending_.data(), pending_.size(), MSG_NOSIGNAL);
      if (sent < 0 && errno == EAGAIN) break;
      if (sent < 0) return false;
      pending_.erase(0, static_cast<size_t>(sent));
    }
    if (is_blocked_ == pending_.empty()) {
      is_blocked_ = !is_blocked_;
      loop_->Change(fd_, is_blocked_ ? EPOLLIN | EPOLLOUT : EPOLLIN);
    }
    return true;
  }

  EventLoop* const loop_;
  const int fd_;
  const std::string name_;
  const std::function<void()> ended_;
  std::string lines_;
  std::string pending_;
  bool is_blocked_ = false;
  bool is_sending_ = false;
  EventLoop::TimerKey timer_;
};

class TcpServer : public Server {
 public:
  TcpServer(EventLoop* loop, const Address& at, std::string name)
      : loop_(loop), at_(at), name_(std::move(name)) {}

  int Start() override {
    fd_ = socket(at_.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    const int on = 1;
    setsockopt(fd_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(fd_, at_.raw(), at_.length) != 0 || listen(fd_, SOMAXCONN) != 0) return errno;
    loop_->Watch(fd_, EPOLLIN, [this](uint32_t) { Accept(); });
    return 0;
  }

  ~TcpServer() override {
    loop_->Forget(fd_);
    close(fd_);
    for (const auto& [_, peer] : peers_) peer->Reset();
  }

 private:
  void Accept() {
    for (int fd; (fd = accept4(fd_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0;) {
      const auto end = [this, fd] { peers_.erase(fd); };
      peers_.emplace(fd, std::make_unique<TcpPeer>(loop_, fd, name_, end));
    }
  }

  EventLoop* const loop_;
  const Address at_;
  const std::string name_;
  int fd_ = -1;
  std::map<int, std::unique_ptr<TcpPeer>> peers_;
};

class UdpServer : public Server {
 public:
  UdpServer(EventLoop* loop, const Address& at, std::string name)
      : loop_(loop), at_(at), name_(std::move(name)) {}

  int Start() override {
    fd_ = socket(at_.family(), SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (bind(fd_, at_.raw(), at_.length) != 0) return errno;
    loop_->Watch(fd_, EPOLLIN, [this](uint32_t) { Answer(); });
    return 0;
  }

  ~UdpServer() override {
    loop_->Forget(fd_);
    close(fd_);
  }

 private:
  void Answer() {
    for (;;) {
      char question[2048];
      Address peer;
      if (recvfrom(fd_, question, sizeof(question), 0, peer.raw(), &peer.length) < 0) return;
      const std::string answer = IdentityJson(name_, at_.port(), peer);
      // Not sent: the client no longer waits, or a filter drops it.
      sendto(fd_, answer.data(), answer.size(), MSG_NOSIGNAL, peer.raw(), peer.length);
    }
  }

  EventLoop* const loop_;
  const Address at_;
  const std::string name_;
  int fd_ = -1;
};

}  // namespace lab
