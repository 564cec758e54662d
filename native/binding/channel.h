// A thread that runs the buffers of JavaScript in order.
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

/** One submitted buffer. Its memory must stay valid until the job is done. */
struct Job {
  virtual ~Job() = default;
  std::span<const std::uint8_t> input;
  Result result;
};

/**
 * Owns the thread. The thread first enters the network namespace, so that the sockets that the
 * families open belong to it. It uses no Node-API. It passes each finished job to `done`, and calls
 * `ended` last.
 */
class Channel {
 public:
  using Done = std::function<void(std::unique_ptr<Job>)>;
  using Ended = std::function<void()>;

  /** `network_namespace`: a path such as /run/netns/a; empty = the process's. */
  Channel(std::string network_namespace, Families families, Done done, Ended ended);
  /** Calls Abandon. */
  ~Channel();
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  std::expected<void, SystemError> Start();
  void Submit(std::unique_ptr<Job> job);
  /** Makes the thread end after the jobs that were submitted. Does not wait for it. */
  void Close();
  /** Makes the thread end after its current job, and waits for it. Queued jobs are dropped. */
  void Abandon();

 private:
  void Loop();
  std::unique_ptr<Job> Take();

  const std::string namespace_;
  /** Used by the thread only. It destroys them when it ends, which closes their sockets. */
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
