// Collects the kernel's answers to messages that were sent together.
#ifndef FAIRLEAD_WIRE_ACK_COLLECTOR_H_
#define FAIRLEAD_WIRE_ACK_COLLECTOR_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "wire/attr_reader.h"

namespace fairlead::wire {

/** An error for one message. */
struct Refusal {
  /** Index of the message among those sent together. */
  std::uint32_t message = 0;
  int error = 0;
  /** The kernel's text (NLMSGERR_ATTR_MSG), else that of strerror(3). */
  std::string words;
  /** Bytes from the start of the message to the refused attribute (NLMSGERR_ATTR_OFFS). */
  std::optional<std::uint32_t> offset;
};

/**
 * Takes NLMSG_ERROR messages. Sequence numbers must be `first_sequence` and those following it;
 * answers to anything else are skipped.
 */
class AckCollector {
 public:
  AckCollector(std::uint32_t first_sequence, std::uint32_t count) noexcept
      : first_(first_sequence), count_(count) {}

  void Take(std::span<const std::uint8_t> datagram);

  /** Whether the message at `index` was answered, with an error or without. */
  bool Answered(std::uint32_t index) const noexcept;
  const std::vector<Refusal>& refusals() const noexcept { return refusals_; }

 private:
  void TakeAnswer(const Message& message);

  std::uint32_t first_;
  std::uint32_t count_;
  std::vector<std::uint32_t> acknowledged_;
  std::vector<Refusal> refusals_;
};

/** Errno (0 = acknowledged), text and offset of an NLMSG_ERROR or NLMSG_DONE message. */
struct Answer {
  int error = 0;
  std::string words;
  std::optional<std::uint32_t> offset;
};
Answer ReadAnswer(const Message& message);

}  // namespace fairlead::wire

#endif  // FAIRLEAD_WIRE_ACK_COLLECTOR_H_
