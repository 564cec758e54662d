// What waits in an agent: descriptors that become ready, and times that come.
#pragma once

#include <sys/epoll.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <utility>

namespace lab {

class EventLoop {
 public:
  using Clock = std::chrono::steady_clock;
  using TimerKey = std::pair<Clock::time_point, uint64_t>;

  // `act` gets the events of epoll(7), until `Forget`. It may forget any descriptor.
  void Watch(int fd, uint32_t events, std::function<void(uint32_t)> act) {
    last_watch_++;
    watches_[fd] = {last_watch_, std::move(act)};
    Control(EPOLL_CTL_ADD, fd, events);
  }

  void Change(int fd, uint32_t events) { Control(EPOLL_CTL_MOD, fd, events); }

  // Before the descriptor is closed.
  void Forget(int fd) {
    if (watches_.erase(fd) == 1) epoll_ctl(epoll_, EPOLL_CTL_DEL, fd, nullptr);
  }

  // Calls `act` once.
  TimerKey After(int64_t milliseconds, std::function<void()> act) {
    last_timer_++;
    const TimerKey key{Clock::now() + std::chrono::milliseconds(milliseconds), last_timer_};
    timers_[key] = std::move(act);
    return key;
  }

  void Cancel(const TimerKey& key) { timers_.erase(key); }

  [[noreturn]] void Run() {
    for (;;) {
      epoll_event events[64];
      const int ready = epoll_wait(epoll_, events, 64, MillisecondsLeft());
      for (int i = 0; i < ready; i++) {
        // The descriptor may have been closed since, and its number be another's.
        const int fd = static_cast<int>(events[i].data.u64 >> 32U);
        const auto watch = watches_.find(fd);
        const auto number = static_cast<uint32_t>(events[i].data.u64);
        if (watch == watches_.end() || watch->second.number != number) continue;
        const auto act = watch->second.act;
        act(events[i].events);
      }
      const auto now = Clock::now();
      while (!timers_.empty() && timers_.begin()->first.first <= now) {
        const auto act = std::move(timers_.begin()->second);
        timers_.erase(timers_.begin());
        act();
      }
    }
  }

 private:
  struct Watched {
    uint32_t number = 0;
    std::function<void(uint32_t)> act;
  };

  void Control(int operation, int fd, uint32_t events) {
    epoll_event event{};
    event.events = events;
    event.data.u64 = static_cast<uint64_t>(fd) << 32U | watches_[fd].number;
    epoll_ctl(epoll_, operation, fd, &event);
  }

  int MillisecondsLeft() const {
    if (timers_.empty()) return -1;
    const auto left = timers_.begin()->first.first - Clock::now();
    if (left.count() <= 0) return 0;
    return static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(left).count());
  }

  const int epoll_ = epoll_create1(EPOLL_CLOEXEC);
  uint32_t last_watch_ = 0;
  uint64_t last_timer_ = 0;
  std::map<int, Watched> watches_;
  std::map<TimerKey, std::function<void()>> timers_;
};

}  // namespace lab
