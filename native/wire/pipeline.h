// Sends messages that are requests by themselves, many at a time.
#ifndef FAIRLEAD_WIRE_PIPELINE_H_
#define FAIRLEAD_WIRE_PIPELINE_H_

#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <vector>

#include "base/system_error.h"
#include "wire/message_writer.h"
#include "wire/socket.h"

namespace fairlead::wire {

/**
 * The kernel handles the messages of a datagram one after the other within the send
 * (netlink_rcv_skb), whatever becomes of those before, and answers each that fails. Only the last
 * of a datagram asks for an acknowledgement: when it is there, silence about the others means that
 * all went well. A datagram holds no more messages than the receive buffer has room for errors.
 *
 *   BeginMessage (out, sequence) ... EndMessage, Commit   for each
 *   Flush
 *
 * A system call that fails makes the pipeline `broken`: whatever follows is not sent.
 */
class Pipeline {
 public:
  /** Where a message comes from, for its failure. */
  struct Origin {
    std::uint32_t op = 0;
    std::uint32_t entry = 0;
  };
  struct Failure {
    /** Nothing: whatever was sent last, because the answer was lost. */
    std::optional<Origin> origin;
    int error = 0;
    std::string words;
  };

  explicit Pipeline(Socket& socket) noexcept;
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;

  MessageWriter& out() noexcept { return out_; }
  /** For the message that is written next. */
  std::uint32_t sequence() const noexcept {
    return socket_.next_sequence() + static_cast<std::uint32_t>(waiting_.size());
  }
  /** The message that was written last is complete, and is sent when there are enough of them. */
  void Commit(Origin origin);
  /** Takes back what was written since the last Commit: `origin` fails without being sent. */
  void Fail(Origin origin, int error, std::string words);
  /** Sends what waits. Only then may the socket be used for anything else. */
  void Flush();
  /** Takes a system call on the socket that failed elsewhere for its own. */
  void Break(SystemError error);

  /** Failures so far, of each datagram in the order of its messages. */
  const std::vector<Failure>& failures() const noexcept { return failures_; }
  /** How many messages the kernel took. */
  std::uint32_t taken() const noexcept { return taken_; }
  bool anything_sent() const noexcept { return anything_sent_; }
  const std::optional<SystemError>& broken() const noexcept { return broken_; }

 private:
  struct Waiting {
    Origin origin;
    std::size_t offset;
  };

  /** Sends what waits and reads the answers, which are there when the send returns. */
  std::expected<void, SystemError> Send();
  std::expected<void, SystemError> Collect(std::uint32_t first_sequence);

  Socket& socket_;
  std::size_t messages_per_send_;
  MessageWriter out_;
  std::size_t complete_bytes_ = 0;
  std::vector<Waiting> waiting_;
  std::vector<Failure> failures_;
  std::uint32_t taken_ = 0;
  bool anything_sent_ = false;
  std::optional<SystemError> broken_;
};

}  // namespace fairlead::wire

#endif  // FAIRLEAD_WIRE_PIPELINE_H_
