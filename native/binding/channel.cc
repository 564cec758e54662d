#include "binding/channel.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>

#include "base/file_descriptor.h"

namespace fairlead::binding {

Channel::Channel(std::string network_namespace, Families families, Done done, Ended ended)
    : namespace_(std::move(network_namespace)),
      families_(std::move(families)),
      done_(std::move(done)),
      ended_(std::move(ended)) {}

Channel::~Channel() { Abandon(); }

// pthread_create and not std::thread: that one throws when there can be no further thread.
std::expected<void, SystemError> Channel::Start() {
  sigset_t every;
  sigset_t before;
  sigfillset(&every);
  // Signals are for the threads of Node; this one inherits a mask that blocks them.
  pthread_sigmask(SIG_SETMASK, &every, &before);
  const int error = pthread_create(
      &thread_, nullptr,
      [](void* self) -> void* {
        static_cast<Channel*>(self)->Loop();
        return nullptr;
      },
      this);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (error != 0) return std::unexpected(SystemError{error, "pthread_create"});
  started_ = true;
  return {};
}

void Channel::Submit(std::unique_ptr<Job> job) {
  const std::lock_guard lock(mutex_);
  queue_.push_back(std::move(job));
  wake_.notify_one();
}

void Channel::Close() {
  const std::lock_guard lock(mutex_);
  closing_ = true;
  wake_.notify_one();
}

void Channel::Abandon() {
  std::deque<std::unique_ptr<Job>> dropped;
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
    dropped.swap(queue_);
    wake_.notify_one();
  }
  if (started_) pthread_join(thread_, nullptr);
  started_ = false;
}

std::unique_ptr<Job> Channel::Take() {
  std::unique_lock lock(mutex_);
  wake_.wait(lock, [this] { return closing_ || !queue_.empty(); });
  if (queue_.empty()) return nullptr;
  std::unique_ptr<Job> job = std::move(queue_.front());
  queue_.pop_front();
  return job;
}

void Channel::Loop() {
  pthread_setname_np(pthread_self(), "fairlead-socket");
  const auto entered = EnterNamespace();
  while (std::unique_ptr<Job> job = Take()) {
    job->result = entered ? protocol::RunInOrder(families_, job->input)
                          : Result(std::unexpected(entered.error()));
    done_(std::move(job));
  }
  ended_();
}

std::expected<void, SystemError> Channel::EnterNamespace() const {
  if (namespace_.empty()) return {};
  const FileDescriptor fd(::open(namespace_.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return std::unexpected(SystemError::Last("open " + namespace_));
  // Moves the calling thread only (setns(2)).
  if (::setns(fd.get(), CLONE_NEWNET) == 0) return {};
  return std::unexpected(SystemError::Last("setns " + namespace_));
}

}  // namespace fairlead::binding
