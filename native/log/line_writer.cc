#include "log/line_writer.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <utility>

#include "base/file_descriptor.h"

namespace fairlead::log {

namespace {

/** Wait between attempts to write a line that the kernel refuses. */
constexpr std::chrono::milliseconds kRetry{1000};

}  // namespace

struct LineWriter::State {
  explicit State(FileDescriptor descriptor) noexcept : fd(std::move(descriptor)) {}

  void Loop();
  /** False when the writer is closing. */
  bool Write(const std::string& line);
  bool Rest();

  const FileDescriptor fd;
  std::mutex mutex;
  std::condition_variable wake;
  std::condition_variable written;
  // Guarded by mutex:
  std::deque<std::string> lines;
  std::size_t pending = 0;
  bool closing = false;
};

void LineWriter::State::Loop() {
  pthread_setname_np(pthread_self(), "fairlead-log");
  std::unique_lock lock(mutex);
  for (;;) {
    wake.wait(lock, [this] { return closing || !lines.empty(); });
    if (closing) return;
    const std::string line = std::move(lines.front());
    lines.pop_front();
    lock.unlock();
    const bool continues = Write(line);
    lock.lock();
    if (!continues) return;
    pending -= line.size();
    if (pending == 0) written.notify_all();
  }
}

bool LineWriter::State::Write(const std::string& line) {
  for (std::size_t at = 0; at < line.size();) {
    const ssize_t count = ::write(fd.get(), line.data() + at, line.size() - at);
    if (count > 0) {
      at += static_cast<std::size_t>(count);
    } else if (count < 0 && errno == EAGAIN) {
      // Another process has made the open file non-blocking.
      pollfd ready{fd.get(), POLLOUT, 0};
      static_cast<void>(::poll(&ready, 1, static_cast<int>(kRetry.count())));
      const std::lock_guard lock(mutex);
      if (closing) return false;
    } else if (count == 0 || errno != EINTR) {
      if (!Rest()) return false;
    }
  }
  return true;
}

bool LineWriter::State::Rest() {
  std::unique_lock lock(mutex);
  return !wake.wait_for(lock, kRetry, [this] { return closing; });
}

std::expected<std::unique_ptr<LineWriter>, SystemError> LineWriter::Start(int fd) {
  FileDescriptor own(::fcntl(fd, F_DUPFD_CLOEXEC, 3));
  // A closed descriptor has no duplicate. Each write is refused with EBADF then, as one to `fd`.
  if (!own.valid() && errno != EBADF) return std::unexpected(SystemError::Last("dup"));
  auto state = std::make_shared<State>(std::move(own));
  auto share = std::make_unique<std::shared_ptr<State>>(state);
  sigset_t every;
  sigset_t before;
  sigfillset(&every);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  // Threads of Node handle signals. This one inherits a mask that blocks all, SIGPIPE too.
  pthread_sigmask(SIG_SETMASK, &every, &before);
  pthread_t thread;
  const int error = pthread_create(
      &thread, &attributes,
      [](void* given) -> void* {
        const std::unique_ptr<std::shared_ptr<State>> mine(
            static_cast<std::shared_ptr<State>*>(given));
        (*mine)->Loop();
        return nullptr;
      },
      share.get());
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_attr_destroy(&attributes);
  if (error != 0) return std::unexpected(SystemError{error, "pthread_create"});
  static_cast<void>(share.release());
  return std::unique_ptr<LineWriter>(new LineWriter(std::move(state)));
}

LineWriter::~LineWriter() {
  const std::lock_guard lock(state_->mutex);
  state_->closing = true;
  state_->wake.notify_one();
}

void LineWriter::Push(std::string line) {
  const std::lock_guard lock(state_->mutex);
  state_->pending += line.size();
  state_->lines.push_back(std::move(line));
  state_->wake.notify_one();
}

std::size_t LineWriter::pending_bytes() const {
  const std::lock_guard lock(state_->mutex);
  return state_->pending;
}

bool LineWriter::Drain(std::chrono::milliseconds longest) {
  std::unique_lock lock(state_->mutex);
  return state_->written.wait_for(lock, longest, [this] { return state_->pending == 0; });
}

}  // namespace fairlead::log
