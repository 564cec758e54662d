// What the binding needs from a netlink family.
#ifndef FAIRLEAD_PROTOCOL_FAMILY_H_
#define FAIRLEAD_PROTOCOL_FAMILY_H_

#include <cstdint>
#include <expected>
#include <span>

#include "base/byte_buffer.h"
#include "base/system_error.h"

namespace fairlead::protocol {

/** Answers buffers of records. Used by one thread only, in that thread's network namespace. */
class Family {
 public:
  virtual ~Family() = default;

  /** Whether a buffer whose first record has this code is for this family. */
  virtual bool Handles(std::uint32_t code) const noexcept = 0;

  /**
   * Does what the buffer asks for; the answer holds records of the schema `replies`. A SystemError
   * means that nothing was sent, or that the answer could not be received.
   */
  virtual std::expected<ByteBuffer, SystemError> Run(std::span<const std::uint8_t> buffer) = 0;
};

}  // namespace fairlead::protocol

#endif  // FAIRLEAD_PROTOCOL_FAMILY_H_
