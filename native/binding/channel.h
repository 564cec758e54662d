// A thread that runs buffers for JavaScript, one after the other.
#ifndef FAIRLEAD_BINDING_CHANNEL_H_
#define FAIRLEAD_BINDING_CHANNEL_H_

#include <pthread.h>

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <expected>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>

#include "base/byte_buffer.h"
#include "base/system_error.h"
#include "protocol/runs.h"

namespace fairlead::binding {

using Result = std::expected<ByteBuffer, SystemError>;
using protocol::Families;

/** One submitted buffer. Its memory must stay until the job is done. */
struct Job {
  virtual ~Job() = default;
  std::span<const std::uint8_t> input;
  Result result;
};

/**
 * Owns the thread. The thread enters the network namespace first, so that every socket that the
 * families open later belongs to it. No Node-API here: the thread gives each finished job to
 * `done`, and calls `ended` as the last thing it does.
 */
class Channel {
 public:
  using Done = std::function<void(std::unique_ptr<Job>)>;
  using Ended = std::function<void()>;

  /** `network_namespace`: a path such as /run/netns/a; empty = that of the process. */
  Channel(std::string network_namespace, Families families, Done done, Ended ended);
  /** As Abandon. */
  ~Channel();
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  /** Starts the thread. */
  std::expected<void, SystemError> Start();
  void Submit(std::unique_ptr<Job> job);
  /** The thread does what was submitted so far and ends. Does not wait. */
  void Close();
  /** The thread ends after the job that it is at; those that wait are dropped. Waits for the end.
   */
  void Abandon();

 private:
  void Loop();
  std::unique_ptr<Job> Take();

  const std::string namespace_;
  /** The thread's own, which closes their sockets when it ends: what they own is free then. */
  Families families_;
  const Done done_;
  const Ended ended_;
  pthread_t thread_{};
  bool started_ = false;

  std::mutex mutex_;
  std::condition_variable wake_;
  // Guarded by mutex_:
  std::deque<std::unique_ptr<Job>> queue_;
  bool closing_ = false;
};

}  // namespace fairlead::binding

#endif  // FAIRLEAD_BINDING_CHANNEL_H_
