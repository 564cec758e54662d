// Lines to a file descriptor that may keep its writer waiting for ever: a pipe that nobody reads.
#ifndef FAIRLEAD_LOG_LINE_WRITER_H_
#define FAIRLEAD_LOG_LINE_WRITER_H_

#include <chrono>
#include <cstddef>
#include <expected>
#include <memory>
#include <string>

#include "base/system_error.h"

namespace fairlead::log {

/**
 * Owns a thread that writes what it is given, a line a system call and in order. O_NONBLOCK would
 * do without a thread, but it belongs to the open file, which other processes share.
 *
 * A line that cannot be written (ENOSPC, EPIPE, EBADF) is tried again each second, and those behind
 * it wait: what waits is the caller's to bound. The thread may hang in a write for good; therefore
 * nobody joins it, and the end of the process does not wait for it.
 */
class LineWriter {
 public:
  /** `fd` stays the caller's; a duplicate is written to. */
  static std::expected<std::unique_ptr<LineWriter>, SystemError> Start(int fd);
  /** The thread ends when the write that it is at returns; what it was not at is dropped. */
  ~LineWriter();
  LineWriter(const LineWriter&) = delete;
  LineWriter& operator=(const LineWriter&) = delete;

  /** Never waits. `line` ends with its newline. */
  void Push(std::string line);
  /** Bytes of lines that are not written to their end. */
  std::size_t pending_bytes() const;
  /** Waits until nothing is pending, `longest` at most; whether nothing is. */
  bool Drain(std::chrono::milliseconds longest);

 private:
  struct State;
  explicit LineWriter(std::shared_ptr<State> state) noexcept : state_(std::move(state)) {}

  /** Shared with the thread, which may outlive this object. */
  std::shared_ptr<State> state_;
};

}  // namespace fairlead::log

#endif  // FAIRLEAD_LOG_LINE_WRITER_H_
