#include "binding/channel.h"

#include "binding/thread.h"

namespace fairlead::binding {

Channel::Channel(std::string network_namespace, Families families, Done done, Ended ended)
    : namespace_(std::move(network_namespace)),
      families_(std::move(families)),
      done_(std::move(done)),
      ended_(std::move(ended)) {}

Channel::~Channel() { Abandon(); }

std::expected<void, SystemError> Channel::Start() {
  auto started =
      StartThread(thread_, [](void* self) { static_cast<Channel*>(self)->Loop(); }, this);
  started_ = started.has_value();
  return started;
}

void Channel::Submit(std::unique_ptr<Job> job) {
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back(std::move(job));
  }
  // The thread would wake up only to wait for the lock.
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
  const auto entered = EnterNamespace(namespace_);
  while (std::unique_ptr<Job> job = Take()) {
    job->result = entered ? protocol::RunInOrder(families_, job->input)
                          : Result(std::unexpected(entered.error()));
    done_(std::move(job));
  }
  families_.clear();
  ended_();
}

}  // namespace fairlead::binding
