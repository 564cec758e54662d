// Writes netlink messages into one buffer, which is sent as one datagram.
#ifndef FAIRLEAD_WIRE_MESSAGE_WRITER_H_
#define FAIRLEAD_WIRE_MESSAGE_WRITER_H_

#include <cstdint>
#include <span>
#include <string_view>

#include "base/byte_buffer.h"

namespace fairlead::wire {

/**
 * The buffer holds messages one after the other. Each has a family header and attributes:
 *
 *   nlmsghdr { len u32, type u16, flags u16, seq u32, pid u32 }, family header, attributes
 *   attribute { len u16, type u16 }, payload, padding to a multiple of 4
 *
 * An attribute has at most 65,535 bytes. A longer one makes the writer `overflowed()` for good. The
 * buffer must not be sent then.
 */
class MessageWriter {
 public:
  /** Longest attribute, its header included, as nlattr.nla_len counts. */
  static constexpr std::size_t kAttributeBytesMax = 0xffff;

  /** A nested attribute that is open, for EndNest. */
  struct Nest {
    std::size_t start;
  };

  /** Starts a message with nlmsghdr. Returns the offset of the message in the buffer. */
  std::size_t BeginMessage(std::uint16_t type, std::uint16_t flags,
                           std::uint32_t sequence) noexcept;
  void EndMessage() noexcept;
  /** Writes the family's header, which follows nlmsghdr, padded to a multiple of 4. */
  void PutFamilyHeader(std::span<const std::uint8_t> header) noexcept;

  Nest BeginNest(std::uint16_t type) noexcept;
  void EndNest(Nest nest) noexcept;
  /** Bytes of the open attribute so far, its header included. */
  std::size_t NestBytes(Nest nest) const noexcept { return buffer_.size() - nest.start; }

  void PutBytes(std::uint16_t type, std::span<const std::uint8_t> bytes) noexcept;
  /** Adds the NUL that the kernel expects at the end. */
  void PutString(std::uint16_t type, std::string_view text) noexcept;
  void PutU8(std::uint16_t type, std::uint8_t value) noexcept;
  void PutU16Be(std::uint16_t type, std::uint16_t value) noexcept;
  void PutU32Be(std::uint16_t type, std::uint32_t value) noexcept;
  void PutU64Be(std::uint16_t type, std::uint64_t value) noexcept;
  void PutU16Host(std::uint16_t type, std::uint16_t value) noexcept;
  void PutU32Host(std::uint16_t type, std::uint32_t value) noexcept;

  /** Appends `length` bytes of undefined content, for whole attributes. Returns their start. */
  std::uint8_t* Extend(std::size_t length) noexcept { return buffer_.Extend(length); }

  /** Adds flags to the message at `offset`. */
  void AddFlags(std::size_t offset, std::uint16_t flags) noexcept;
  /** Drops all bytes from `size` on. */
  void Truncate(std::size_t size) noexcept { buffer_.Truncate(size); }
  void Reserve(std::size_t bytes) noexcept { buffer_.Reserve(bytes); }

  bool overflowed() const noexcept { return overflowed_; }
  std::size_t size() const noexcept { return buffer_.size(); }
  std::span<const std::uint8_t> bytes() const noexcept { return buffer_.bytes(); }

 private:
  /** Appends an attribute's header and room for its padded payload. Returns the payload's start. */
  std::uint8_t* PutAttribute(std::uint16_t type, std::size_t length) noexcept;

  ByteBuffer buffer_;
  std::size_t message_ = 0;
  bool overflowed_ = false;
};

}  // namespace fairlead::wire

#endif  // FAIRLEAD_WIRE_MESSAGE_WRITER_H_
