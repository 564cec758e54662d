// SCTP, in a process of its own: its servers and associations are threads that block, and their
// ports are free when it has ended.
//
// Lines in:  <id> listen <address> <port> <name>
//            <id> open <own address or -> <own port> <address> <port> <timeout ms>
//            <id> ask <id of open> <timeout ms>
//            <id> close <id of open>
// Lines out: <id> <errno> [<own address> <answer>], one for each line in, in any order.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <utility>

#include "address.h"
#include "event_loop.h"
#include "flow.h"
#include "reply.h"
#include "sctp_raw.h"
#include "sctp_sockets.h"

namespace lab {

// The process.
class SctpServing {
 public:
  [[noreturn]] void Run() {
    for (std::string line; std::getline(std::cin, line);) Execute(std::istringstream(line));
    std::_Exit(0);  // threads still serve
  }

 private:
  // An association kept between commands.
  struct Kept {
    Address own;
    std::unique_ptr<Association> association;

    void Open(uint64_t id, const Address& to, int64_t timeout_ms) {
      const int error = association->Open(own, to, timeout_ms);
      error == 0 ? Ask(id, timeout_ms) : Answer(id, error);
    }

    void Ask(uint64_t id, int64_t timeout_ms) {
      std::string answer;
      const int error = association->Ask(timeout_ms, &answer);
      Answer(id, error, error == 0 ? " " + own.host() + " " + answer : "");
    }
  };

  static void Answer(uint64_t id, int error, const std::string& more = "") {
    const std::string line = std::to_string(id) + " " + std::to_string(error) + more + "\n";
    // A line is written whole, since threads share the stream.
    std::fputs(line.c_str(), stdout);
    std::fflush(stdout);
  }

  void Execute(std::istringstream words) {
    uint64_t id = 0, opened = 0;
    int64_t timeout_ms = 0;
    std::string verb;
    words >> id >> verb;
    if (verb == "listen") return Listen(id, &words);
    if (verb == "open") return Open(id, &words);
    words >> opened >> timeout_ms;
    if (verb == "ask" && kept_.contains(opened)) {
      // The thread keeps the association alive, whatever is closed in the meantime.
      return std::thread(&Kept::Ask, kept_[opened], id, timeout_ms).detach();
    }
    Answer(id, verb == "close" && kept_.erase(opened) == 1 ? 0 : ENOENT);
  }

  void Listen(uint64_t id, std::istringstream* words) {
    std::string host, name;
    uint16_t port = 0;
    Address at;
    *words >> host >> port >> name;
    if (!at.Parse(host, port)) return Answer(id, EINVAL);
    Answer(id, kernel_sctp_ ? SctpSocket::Serve(at, name) : SctpRaw::Serve(at, name));
  }

  void Open(uint64_t id, std::istringstream* words) {
    std::string own_host, host;
    uint16_t own_port = 0, port = 0;
    int64_t timeout_ms = 0;
    *words >> own_host >> own_port >> host >> port >> timeout_ms;
    Address to;
    const auto kept = std::make_shared<Kept>();
    kept->own.set_port(own_port);
    if (!to.Parse(host, port)) return Answer(id, EINVAL);
    if (own_host != "-" && !kept->own.Parse(own_host, own_port)) return Answer(id, EINVAL);
    if (own_host == "-" && !ChooseSource(to, &kept->own)) return Answer(id, errno);
    kept->association.reset(kernel_sctp_ ? static_cast<Association*>(new SctpSocket) : new SctpRaw);
    kept_[id] = kept;
    std::thread(&Kept::Open, kept, id, to, timeout_ms).detach();
  }

  const bool kernel_sctp_ = SctpSocket::Available();
  std::map<uint64_t, std::shared_ptr<Kept>> kept_;
};

// Its parent's part. The process is started by the first request.
class SctpProcess {
 public:
  // Of one request; `answer` and `own` are what `open` and `ask` answer.
  struct Result {
    int error = 0;
    std::string own = {};
    std::string answer = {};
  };
  using Done = std::function<void(const Result&)>;

  explicit SctpProcess(EventLoop* loop) : loop_(loop) {}

  // Returns the id of the request. Without `done`, the reply is dropped.
  uint64_t Request(const std::string& words, Done done) {
    if (pid_ < 0) Start();
    last_id_++;
    if (done != nullptr) waiting_[last_id_] = std::move(done);
    const std::string line = std::to_string(last_id_) + " " + words + "\n";
    send(fd_, line.data(), line.size(), MSG_NOSIGNAL);
    return last_id_;
  }

  void Drop(uint64_t id) { waiting_.erase(id); }

  // When this returns, all ports are free.
  void End() {
    if (pid_ < 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = -1;
    loop_->Forget(fd_);
    close(fd_);
    waiting_.clear();
    lines_.clear();
  }

 private:
  void Start() {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) std::abort();
    pid_ = fork();
    if (pid_ < 0) std::abort();
    if (pid_ == 0) {
      dup2(ends[1], 0);
      dup2(ends[1], 1);
      close_range(3, ~0U, 0);
      SctpServing().Run();
    }
    close(ends[1]);
    fd_ = ends[0];
    loop_->Watch(fd_, EPOLLIN, [this](uint32_t) { OnReplies(); });
  }

  void OnReplies() {
    char buffer[4096];
    const ssize_t size = read(fd_, buffer, sizeof(buffer));
    if (size <= 0) {
      std::fprintf(stderr, "agent: its process for SCTP has ended\n");
      std::exit(1);
    }
    lines_.append(buffer, static_cast<size_t>(size));
    for (size_t end; (end = lines_.find('\n')) != std::string::npos;) {
      std::istringstream words(lines_.substr(0, end));
      lines_.erase(0, end + 1);
      uint64_t id = 0;
      Result result;
      words >> id >> result.error >> result.own >> std::ws;
      std::getline(words, result.answer);
      const auto found = waiting_.find(id);
      if (found == waiting_.end()) continue;
      const Done done = std::move(found->second);
      waiting_.erase(found);
      done(result);
    }
  }

  EventLoop* const loop_;
  pid_t pid_ = -1;
  int fd_ = -1;
  uint64_t last_id_ = 0;
  std::map<uint64_t, Done> waiting_;
  std::string lines_;
};

class SctpFlow : public Flow {
 public:
  SctpFlow(SctpProcess* process, const Address& own, const Address& to)
      : process_(process), own_(own), to_(to) {}

  ~SctpFlow() override {
    GiveUp();
    if (opened_ != 0) process_->Request("close " + std::to_string(opened_), nullptr);
  }

  void Ask(int64_t timeout_ms, Deliver deliver) override {
    const std::string limit = " " + std::to_string(timeout_ms);
    const std::string own = own_.family() == AF_UNSPEC ? "-" : own_.host();
    const std::string words =
        opened_ == 0 ? "open " + own + " " + std::to_string(own_.port()) + " " + to_.host() + " " +
                           std::to_string(to_.port()) + limit
                     : "ask " + std::to_string(opened_) + limit;
    asked_ = process_->Request(words, [deliver](const SctpProcess::Result& result) {
      switch (result.error) {
        case 0:
          return deliver({Reply::kAnswered, result.answer, result.own});
        case EAGAIN:
          return deliver({Reply::kTimeout});
        case EPIPE:
          return deliver({Reply::kClosed});
        default:
          return deliver(Failed(result.error));
      }
    });
    if (opened_ == 0) opened_ = asked_;
  }

  void GiveUp() override { process_->Drop(asked_); }

 private:
  SctpProcess* const process_;
  const Address own_;
  const Address to_;
  uint64_t opened_ = 0;
  uint64_t asked_ = 0;
};

}  // namespace lab
