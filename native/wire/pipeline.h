// Sends many independent requests in one datagram.
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
 * The kernel handles the messages of a datagram in order, within the send (netlink_rcv_skb). A
 * message that fails is answered with its error; those behind it are handled all the same. Only the
 * last message asks for an acknowledgement. Once that has come, messages without an answer have
 * succeeded. A datagram holds no more messages than the receive buffer can hold errors.
 *
 *   BeginMessage (out, sequence) ... EndMessage, Commit   for each message
 *   Flush
 *
 * A failed system call makes the pipeline `broken`. It sends nothing more then.
 */
class Pipeline {
 public:
  /** The op and entry that a message comes from. Its failure names them. */
  struct Origin {
    std::uint32_t op = 0;
    std::uint32_t entry = 0;
  };
  struct Failure {
    /** Nothing when answers were lost: any message of the last datagram may have failed. */
    std::optional<Origin> origin;
    int error = 0;
    std::string words;
  };

  explicit Pipeline(Socket& socket) noexcept;
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;

  MessageWriter& out() noexcept { return out_; }
  /** Sequence number of the next message. */
  std::uint32_t sequence() const noexcept {
    return socket_.next_sequence() + static_cast<std::uint32_t>(waiting_.size());
  }
  /** Queues the message that was written last. Sends the queue when it is full. */
  void Commit(Origin origin);
  /** Drops what was written since the last Commit, and reports `origin` as failed. */
  void Fail(Origin origin, int error, std::string words);
  /** Sends the queue. The socket may be used for other requests only after this. */
  void Flush();
  /** Breaks the pipeline for a system call on the socket that failed outside of it. */
  void Break(SystemError error);

  /** Failures so far. Those of a datagram are in the order of the kernel's answers. */
  const std::vector<Failure>& failures() const noexcept { return failures_; }
  /** How many messages the kernel did not refuse. */
  std::uint32_t taken() const noexcept { return taken_; }
  bool anything_sent() const noexcept { return anything_sent_; }
  const std::optional<SystemError>& broken() const noexcept { return broken_; }

 private:
  struct Waiting {
    Origin origin;
    std::size_t offset;
  };

  /** Sends the queue and reads the answers, which are there when the send returns. */
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
