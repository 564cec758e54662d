// Writes lines to a file descriptor that may block for ever, such as a pipe that no program reads.
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
 * Owns a thread that writes the lines in order, each with its own write(2). O_NONBLOCK would need
 * no thread, but it is a flag of the open file, which other processes share.
 *
 * A line that cannot be written (ENOSPC, EPIPE, EBADF) is tried again each second, and later lines
 * wait. The caller bounds how many. The thread may block in a write for ever, so it is not joined,
 * and the end of the process does not wait for it.
 */
class LineWriter {
 public:
  /** Writes to a duplicate of `fd`; the caller keeps `fd`. */
  static std::expected<std::unique_ptr<LineWriter>, SystemError> Start(int fd);
  /** The thread ends when its current write returns. Lines that it has not begun are dropped. */
  ~LineWriter();
  LineWriter(const LineWriter&) = delete;
  LineWriter& operator=(const LineWriter&) = delete;

  /** Never waits. `line` ends with its newline. */
  void Push(std::string line);
  /** Bytes of the lines that are not wholly written. */
  std::size_t pending_bytes() const;
  /** Waits until all lines are written, at most `longest`. Returns whether they are. */
  bool Drain(std::chrono::milliseconds longest);

 private:
  struct State;
  explicit LineWriter(std::shared_ptr<State> state) noexcept : state_(std::move(state)) {}

  /** Shared with the thread, which may outlive this object. */
  std::shared_ptr<State> state_;
};

}  // namespace fairlead::log

#endif  // FAIRLEAD_LOG_LINE_WRITER_H_
