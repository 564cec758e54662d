#include "wire/attr_reader.h"

#include <linux/netlink.h>

#include <algorithm>

#include "wire/byte_order.h"

namespace fairlead::wire {

namespace {

/** Removes `length` bytes and their padding from the start. The last padding may be missing. */
void Skip(std::span<const std::uint8_t>& rest, std::size_t length) noexcept {
  const std::size_t padded = (length + 3) & ~std::size_t{3};
  rest = rest.subspan(std::min(padded, rest.size()));
}

}  // namespace

std::optional<Message> MessageReader::Next() noexcept {
  if (rest_.empty()) return std::nullopt;
  const std::uint32_t length =
      rest_.size() < NLMSG_HDRLEN ? 0 : LoadHost<std::uint32_t>(rest_.data());
  if (length < NLMSG_HDRLEN || length > rest_.size()) {
    malformed_ = true;
    rest_ = {};
    return std::nullopt;
  }
  const Message message{
      LoadHost<std::uint16_t>(rest_.data() + 4), LoadHost<std::uint16_t>(rest_.data() + 6),
      LoadHost<std::uint32_t>(rest_.data() + 8), LoadHost<std::uint32_t>(rest_.data() + 12),
      rest_.subspan(NLMSG_HDRLEN, length - NLMSG_HDRLEN)};
  Skip(rest_, length);
  return message;
}

std::expected<std::span<const std::uint8_t>, std::string> AttributesOf(const Message& message,
                                                                       std::size_t header_bytes) {
  if (message.payload.size() < header_bytes) {
    return std::unexpected("the kernel sent a short message");
  }
  return message.payload.subspan(header_bytes);
}

std::optional<Attribute> AttrReader::Next() noexcept {
  if (rest_.empty()) return std::nullopt;
  const std::uint16_t length =
      rest_.size() < NLA_HDRLEN ? 0 : LoadHost<std::uint16_t>(rest_.data());
  if (length < NLA_HDRLEN || length > rest_.size()) {
    malformed_ = true;
    rest_ = {};
    return std::nullopt;
  }
  const std::uint16_t type = LoadHost<std::uint16_t>(rest_.data() + 2);
  const Attribute attribute{static_cast<std::uint16_t>(type & NLA_TYPE_MASK),
                            (type & NLA_F_NESTED) != 0,
                            rest_.subspan(NLA_HDRLEN, std::size_t{length} - NLA_HDRLEN)};
  Skip(rest_, length);
  return attribute;
}

std::uint8_t ReadU8(std::span<const std::uint8_t> payload, std::uint8_t fallback) noexcept {
  return payload.empty() ? fallback : payload[0];
}

std::uint32_t ReadU32Be(std::span<const std::uint8_t> payload, std::uint32_t fallback) noexcept {
  return payload.size() < 4 ? fallback : LoadBe<std::uint32_t>(payload.data());
}

std::uint64_t ReadU64Be(std::span<const std::uint8_t> payload, std::uint64_t fallback) noexcept {
  return payload.size() < 8 ? fallback : LoadBe<std::uint64_t>(payload.data());
}

std::uint32_t ReadU32Host(std::span<const std::uint8_t> payload, std::uint32_t fallback) noexcept {
  return payload.size() < 4 ? fallback : LoadHost<std::uint32_t>(payload.data());
}

std::uint16_t ReadU16Be(std::span<const std::uint8_t> payload, std::uint16_t fallback) noexcept {
  return payload.size() < 2 ? fallback : LoadBe<std::uint16_t>(payload.data());
}

std::uint16_t ReadU16Host(std::span<const std::uint8_t> payload, std::uint16_t fallback) noexcept {
  return payload.size() < 2 ? fallback : LoadHost<std::uint16_t>(payload.data());
}

std::uint64_t ReadU64Host(std::span<const std::uint8_t> payload, std::uint64_t fallback) noexcept {
  return payload.size() < 8 ? fallback : LoadHost<std::uint64_t>(payload.data());
}

std::string_view ReadString(std::span<const std::uint8_t> payload) noexcept {
  const auto end = std::find(payload.begin(), payload.end(), std::uint8_t{0});
  return {reinterpret_cast<const char*>(payload.data()),
          static_cast<std::size_t>(end - payload.begin())};
}

}  // namespace fairlead::wire
