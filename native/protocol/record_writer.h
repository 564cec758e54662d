// Writes records (see src/kernel/records.ts).
#ifndef FAIRLEAD_PROTOCOL_RECORD_WRITER_H_
#define FAIRLEAD_PROTOCOL_RECORD_WRITER_H_

#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "base/byte_buffer.h"

namespace fairlead::protocol {

/** Appends records to a buffer: Begin, the fields in schema order, End. Records do not nest. */
class RecordWriter {
 public:
  void Begin(std::uint32_t code) noexcept {
    U32(code);
    start_ = buffer_.size();
    U32(0);
  }

  void End() noexcept { Patch(start_, static_cast<std::uint32_t>(buffer_.size() - start_ - 4)); }

  void U8(std::uint8_t value) noexcept { U32(value); }
  void U16(std::uint16_t value) noexcept { U32(value); }
  void U32(std::uint32_t value) noexcept { std::memcpy(buffer_.Extend(4), &value, 4); }
  void I32(std::int32_t value) noexcept { U32(static_cast<std::uint32_t>(value)); }
  void U64(std::uint64_t value) noexcept {
    U32(static_cast<std::uint32_t>(value));
    U32(static_cast<std::uint32_t>(value >> 32));
  }
  void Bytes(std::span<const std::uint8_t> bytes) noexcept {
    U32(static_cast<std::uint32_t>(bytes.size()));
    Padded(bytes);
  }
  void String(std::string_view text) noexcept {
    Bytes({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()});
  }

  /** The bytes without their length, padded with zeroes to a multiple of 4. */
  void Padded(std::span<const std::uint8_t> bytes) noexcept {
    const std::size_t padding = -bytes.size() & 3;
    std::uint8_t* out = buffer_.Extend(bytes.size() + padding);
    if (!bytes.empty()) std::memcpy(out, bytes.data(), bytes.size());
    std::memset(out + bytes.size(), 0, padding);
  }

  /** Overwrites the word at `offset`, which must have been written. */
  void Patch(std::size_t offset, std::uint32_t value) noexcept {
    std::memcpy(buffer_.data() + offset, &value, 4);
  }

  std::size_t size() const noexcept { return buffer_.size(); }
  std::span<const std::uint8_t> bytes() const noexcept { return buffer_.bytes(); }
  ByteBuffer& buffer() noexcept { return buffer_; }

 private:
  ByteBuffer buffer_;
  std::size_t start_ = 0;
};

}  // namespace fairlead::protocol

#endif  // FAIRLEAD_PROTOCOL_RECORD_WRITER_H_
