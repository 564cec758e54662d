// The interface of a netlink family for the binding.
#ifndef FAIRLEAD_PROTOCOL_FAMILY_H_
#define FAIRLEAD_PROTOCOL_FAMILY_H_

#include <cstdint>
#include <expected>
#include <span>

#include "base/byte_buffer.h"
#include "base/system_error.h"

namespace fairlead::protocol {

/** Answers buffers of records. One thread uses it, in that thread's network namespace. */
class Family {
 public:
  virtual ~Family() = default;

  /** Whether records of this code are for this family. */
  virtual bool Handles(std::uint32_t code) const noexcept = 0;

  /**
   * Runs the ops or the request of the buffer. The answer holds records of `kernelReplies`
   * (src/kernel/ops.ts). `first_op` is the index of the buffer's first op: indices in the answer
   * count from there. A SystemError means that nothing was sent, or that the answer could not be
   * received.
   */
  virtual std::expected<ByteBuffer, SystemError> Run(std::span<const std::uint8_t> buffer,
                                                     std::uint32_t first_op) = 0;
};

}  // namespace fairlead::protocol

#endif  // FAIRLEAD_PROTOCOL_FAMILY_H_
