// Writes netlink messages into one buffer that is sent as a whole.
#ifndef FAIRLEAD_WIRE_MESSAGE_WRITER_H_
#define FAIRLEAD_WIRE_MESSAGE_WRITER_H_

#include <cstdint>
#include <span>
#include <string_view>

#include "base/byte_buffer.h"

namespace fairlead::wire {

/**
 * Messages one after the other; in each, a family header and attributes:
 *
 *   nlmsghdr { len u32, type u16, flags u16, seq u32, pid u32 }, family header, attributes
 *   attribute { len u16, type u16 }, payload, padding to a multiple of 4
 *
 * An attribute cannot be longer than 65,535 bytes. One that is makes the writer `overflowed()`,
 * which sticks: the buffer must not be sent then.
 */
class MessageWriter {
 public:
  /** Longest attribute with its header, as nlattr.nla_len counts. */
  static constexpr std::size_t kAttributeBytesMax = 0xffff;

  /** A nested attribute that is open; give it back to EndNest. */
  struct Nest {
    std::size_t start;
  };

  /** Starts a message and returns its offset in the buffer. */
  std::size_t BeginMessage(std::uint16_t type, std::uint16_t flags,
                           std::uint32_t sequence) noexcept;
  void EndMessage() noexcept;
  /** The header that a netlink family has after nlmsghdr; padded to a multiple of 4. */
  void PutFamilyHeader(std::span<const std::uint8_t> header) noexcept;

  Nest BeginNest(std::uint16_t type) noexcept;
  void EndNest(Nest nest) noexcept;
  /** Bytes of the open attribute so far, its header included. */
  std::size_t NestBytes(Nest nest) const noexcept { return buffer_.size() - nest.start; }

  void PutBytes(std::uint16_t type, std::span<const std::uint8_t> bytes) noexcept;
  /** With the NUL at its end that the kernel wants. */
  void PutString(std::uint16_t type, std::string_view text) noexcept;
  void PutU8(std::uint16_t type, std::uint8_t value) noexcept;
  void PutU16Be(std::uint16_t type, std::uint16_t value) noexcept;
  void PutU32Be(std::uint16_t type, std::uint32_t value) noexcept;
  void PutU64Be(std::uint16_t type, std::uint64_t value) noexcept;
  void PutU16Host(std::uint16_t type, std::uint16_t value) noexcept;
  void PutU32Host(std::uint16_t type, std::uint32_t value) noexcept;

  /** Appends `length` bytes of undefined content, whole attributes as a rule; returns their start.
   */
  std::uint8_t* Extend(std::size_t length) noexcept { return buffer_.Extend(length); }

  /** Sets flags of the message at `offset` in addition to those it has. */
  void AddFlags(std::size_t offset, std::uint16_t flags) noexcept;
  /** Drops everything from `size` on: takes back what was begun there. */
  void Truncate(std::size_t size) noexcept { buffer_.Truncate(size); }
  void Reserve(std::size_t bytes) noexcept { buffer_.Reserve(bytes); }

  bool overflowed() const noexcept { return overflowed_; }
  std::size_t size() const noexcept { return buffer_.size(); }
  std::span<const std::uint8_t> bytes() const noexcept { return buffer_.bytes(); }

 private:
  /** Appends an attribute's header and room for its padded payload; returns where that starts. */
  std::uint8_t* PutAttribute(std::uint16_t type, std::size_t length) noexcept;

  ByteBuffer buffer_;
  std::size_t message_ = 0;
  bool overflowed_ = false;
};

}  // namespace fairlead::wire

#endif  // FAIRLEAD_WIRE_MESSAGE_WRITER_H_
