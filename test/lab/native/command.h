// Commands that run in the namespace.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "event_loop.h"

namespace lab {

struct CommandResult {
  int code = 0;
  std::string out = {};
  std::string err = {};
};

// One command with its input, until it has ended and its output is closed.
class Command : public std::enable_shared_from_this<Command> {
 public:
  using Done = std::function<void(const CommandResult&)>;

  static void Run(EventLoop* loop, const std::vector<std::string>& words, std::string input,
                  Done done) {
    const auto command = std::make_shared<Command>(loop, std::move(input), std::move(done));
    command->Start(words);
  }

  Command(EventLoop* loop, std::string input, Done done)
      : loop_(loop), input_(std::move(input)), done_(std::move(done)) {}

 private:
  void Start(const std::vector<std::string>& words) {
    int in[2], out[2], err[2];
    for (int* ends : {in, out, err}) {
      if (pipe2(ends, O_CLOEXEC) != 0) std::abort();
    }
    pid_ = fork();
    if (pid_ < 0) std::abort();
    if (pid_ == 0) {
      dup2(in[0], 0);
      dup2(out[1], 1);
      dup2(err[1], 2);
      signal(SIGPIPE, SIG_DFL);
      std::vector<char*> argv;
      for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
      argv.push_back(nullptr);
      execvp(argv[0], argv.data());
      dprintf(2, "%s: %s", argv[0], std::strerror(errno));
      _exit(127);
    }
    for (const int fd : {in[0], out[1], err[1]}) close(fd);
    for (const int fd : {in[1], out[0], err[0]}) fcntl(fd, F_SETFL, O_NONBLOCK);
    const auto self = shared_from_this();
    const int process = static_cast<int>(syscall(SYS_pidfd_open, pid_, 0));
    loop_->Watch(in[1], EPOLLOUT, [self, fd = in[1]](uint32_t) { self->Feed(fd); });
    for (const auto& [fd, into] : {std::pair{out[0], &result_.out}, {err[0], &result_.err}}) {
      loop_->Watch(fd, EPOLLIN, [self, fd, into](uint32_t) { self->Read(fd, into); });
    }
    loop_->Watch(process, EPOLLIN, [self, process](uint32_t) {
      int status = 0;
      waitpid(self->pid_, &status, 0);
      self->result_.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128;
      self->Close(process);
    });
  }

  void Feed(int fd) {
    const ssize_t size = write(fd, input_.data(), input_.size());
    if (size < 0 && errno == EAGAIN) return;
    input_.erase(0, size < 0 ? std::string::npos : static_cast<size_t>(size));
    if (!input_.empty()) return;
    loop_->Forget(fd);
    close(fd);
  }

  void Read(int fd, std::string* into) {
    char buffer[65536];
    const ssize_t size = read(fd, buffer, sizeof(buffer));
    if (size > 0) into->append(buffer, static_cast<size_t>(size));
    if (size == 0) Close(fd);
  }

  // Of its output, its errors and its end, the last one completes it.
  void Close(int fd) {
    loop_->Forget(fd);
    close(fd);
    open_--;
    if (open_ == 0) done_(result_);
  }

  EventLoop* const loop_;
  std::string input_;
  const Done done_;
  pid_t pid_ = -1;
  int open_ = 3;
  CommandResult result_;
};

}  // namespace lab
