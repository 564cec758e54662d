// Writes records (see src/kernel/records.ts).
#ifndef FAIRLEAD_PROTOCOL_RECORD_WRITER_H_
#define FAIRLEAD_PROTOCOL_RECORD_WRITER_H_

#include <concepts>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "base/byte_buffer.h"

namespace fairlead::protocol {

class RecordWriter {
 public:
  /** Appends a record. R is a type of the schema. */
  template <typename R>
  void Append(const R& record) noexcept {
    Put(R::kCode);
    const std::size_t start = buffer_.size();
    Put(std::uint32_t{0});
    R::EachField(record, [&](const char*, const auto& value) { Put(value); });
    const auto length = static_cast<std::uint32_t>(buffer_.size() - start - 4);
    std::memcpy(buffer_.data() + start, &length, sizeof(length));
  }

  std::size_t size() const noexcept { return buffer_.size(); }
  std::span<const std::uint8_t> bytes() const noexcept { return buffer_.bytes(); }
  ByteBuffer& buffer() noexcept { return buffer_; }

 private:
  /** Writes a word in host order. 64 bits are two words, the lower one first. */
  void Put(std::unsigned_integral auto value) noexcept {
    const auto low = static_cast<std::uint32_t>(value);
    std::memcpy(buffer_.Extend(4), &low, 4);
    if constexpr (sizeof(value) > 4) Put(static_cast<std::uint32_t>(value >> 32));
  }
  void Put(std::int32_t value) noexcept { Put(static_cast<std::uint32_t>(value)); }
  /** Writes the length and the bytes, padded with zeroes to a multiple of 4. */
  void Put(std::span<const std::uint8_t> bytes) noexcept {
    Put(static_cast<std::uint32_t>(bytes.size()));
    const std::size_t padding = -bytes.size() & 3;
    std::uint8_t* out = buffer_.Extend(bytes.size() + padding);
    if (!bytes.empty()) std::memcpy(out, bytes.data(), bytes.size());
    std::memset(out + bytes.size(), 0, padding);
  }
  void Put(std::string_view text) noexcept {
    Put(std::span(reinterpret_cast<const std::uint8_t*>(text.data()), text.size()));
  }

  ByteBuffer buffer_;
};

}  // namespace fairlead::protocol

#endif  // FAIRLEAD_PROTOCOL_RECORD_WRITER_H_
