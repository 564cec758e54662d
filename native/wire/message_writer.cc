#include "wire/message_writer.h"

#include <linux/netlink.h>

#include "wire/byte_order.h"

namespace fairlead::wire {

namespace {

constexpr std::size_t Padded(std::size_t length) noexcept { return (length + 3) & ~std::size_t{3}; }

void PutHeader(std::uint8_t* out, std::size_t length, std::uint16_t type) noexcept {
  StoreHost(out, static_cast<std::uint16_t>(length));
  StoreHost(out + 2, type);
}

}  // namespace

std::size_t MessageWriter::BeginMessage(std::uint16_t type, std::uint16_t flags,
                                        std::uint32_t sequence) noexcept {
  message_ = buffer_.size();
  std::uint8_t* header = buffer_.Extend(NLMSG_HDRLEN);
  StoreHost(header, std::uint32_t{0});
  StoreHost(header + 4, type);
  StoreHost(header + 6, flags);
  StoreHost(header + 8, sequence);
  StoreHost(header + 12, std::uint32_t{0});
  return message_;
}

void MessageWriter::EndMessage() noexcept {
  StoreHost(buffer_.data() + message_, static_cast<std::uint32_t>(buffer_.size() - message_));
}

void MessageWriter::PutFamilyHeader(std::span<const std::uint8_t> header) noexcept {
  if (header.empty()) return;
  std::uint8_t* out = buffer_.Extend(Padded(header.size()));
  std::memset(out, 0, Padded(header.size()));
  std::memcpy(out, header.data(), header.size());
}

std::uint8_t* MessageWriter::PutAttribute(std::uint16_t type, std::size_t length) noexcept {
  if (length + NLA_HDRLEN > kAttributeBytesMax) {
    overflowed_ = true;
    length = 0;
  }
  const std::size_t padded = Padded(length);
  std::uint8_t* out = buffer_.Extend(NLA_HDRLEN + padded);
  PutHeader(out, NLA_HDRLEN + length, type);
  // Zeroes the last word, which has the padding. The caller then writes the payload.
  if (padded != length) StoreHost(out + padded, std::uint32_t{0});
  return out + NLA_HDRLEN;
}

MessageWriter::Nest MessageWriter::BeginNest(std::uint16_t type) noexcept {
  const Nest nest{buffer_.size()};
  PutHeader(buffer_.Extend(NLA_HDRLEN), 0, static_cast<std::uint16_t>(type | NLA_F_NESTED));
  return nest;
}

void MessageWriter::EndNest(Nest nest) noexcept {
  const std::size_t length = NestBytes(nest);
  if (length > kAttributeBytesMax) overflowed_ = true;
  StoreHost(buffer_.data() + nest.start, static_cast<std::uint16_t>(length));
}

void MessageWriter::PutBytes(std::uint16_t type, std::span<const std::uint8_t> bytes) noexcept {
  std::uint8_t* out = PutAttribute(type, bytes.size());
  if (!overflowed_ && !bytes.empty()) std::memcpy(out, bytes.data(), bytes.size());
}

void MessageWriter::PutString(std::uint16_t type, std::string_view text) noexcept {
  std::uint8_t* out = PutAttribute(type, text.size() + 1);
  if (overflowed_) return;
  std::memcpy(out, text.data(), text.size());
  out[text.size()] = 0;
}

void MessageWriter::PutU8(std::uint16_t type, std::uint8_t value) noexcept {
  *PutAttribute(type, 1) = value;
}

void MessageWriter::PutU16Be(std::uint16_t type, std::uint16_t value) noexcept {
  StoreBe(PutAttribute(type, 2), value);
}

void MessageWriter::PutU32Be(std::uint16_t type, std::uint32_t value) noexcept {
  StoreBe(PutAttribute(type, 4), value);
}

void MessageWriter::PutU64Be(std::uint16_t type, std::uint64_t value) noexcept {
  StoreBe(PutAttribute(type, 8), value);
}

void MessageWriter::PutU16Host(std::uint16_t type, std::uint16_t value) noexcept {
  StoreHost(PutAttribute(type, 2), value);
}

void MessageWriter::PutU32Host(std::uint16_t type, std::uint32_t value) noexcept {
  StoreHost(PutAttribute(type, 4), value);
}

void MessageWriter::AddFlags(std::size_t offset, std::uint16_t flags) noexcept {
  std::uint8_t* field = buffer_.data() + offset + 6;
  StoreHost(field, static_cast<std::uint16_t>(LoadHost<std::uint16_t>(field) | flags));
}

}  // namespace fairlead::wire
