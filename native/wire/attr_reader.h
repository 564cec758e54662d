// Reads netlink messages and attributes. Reads never go beyond the given span.
#ifndef FAIRLEAD_WIRE_ATTR_READER_H_
#define FAIRLEAD_WIRE_ATTR_READER_H_

#include <array>
#include <cstdint>
#include <expected>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace fairlead::wire {

struct Message {
  std::uint16_t type = 0;
  std::uint16_t flags = 0;
  std::uint32_t sequence = 0;
  /** Netlink port of the socket whose request the message answers, or reports to a group. */
  std::uint32_t port = 0;
  /** All bytes after nlmsghdr. */
  std::span<const std::uint8_t> payload;
};

/** Walks the messages of a datagram. Stops at the first that does not fit. */
class MessageReader {
 public:
  explicit MessageReader(std::span<const std::uint8_t> datagram) noexcept : rest_(datagram) {}
  std::optional<Message> Next() noexcept;
  /** True when Next stopped because of a malformed message. */
  bool malformed() const noexcept { return malformed_; }

 private:
  std::span<const std::uint8_t> rest_;
  bool malformed_ = false;
};

/** The result of reading a message: nothing, or what is wrong with it. */
using Taken = std::expected<void, std::string>;

/** The bytes after the family's header. On failure: the message is shorter than the header. */
std::expected<std::span<const std::uint8_t>, std::string> AttributesOf(const Message& message,
                                                                       std::size_t header_bytes);

struct Attribute {
  /** Without the bits NLA_F_NESTED and NLA_F_NET_BYTEORDER. */
  std::uint16_t type = 0;
  bool nested = false;
  std::span<const std::uint8_t> payload;
};

/** Walks attributes. Stops at the first that does not fit. */
class AttrReader {
 public:
  explicit AttrReader(std::span<const std::uint8_t> attributes) noexcept : rest_(attributes) {}
  std::optional<Attribute> Next() noexcept;
  /** True when Next stopped because of a malformed attribute. */
  bool malformed() const noexcept { return malformed_; }

 private:
  std::span<const std::uint8_t> rest_;
  bool malformed_ = false;
};

// `Be`: in network order; `Host`: in host order. Missing or short attributes give the fallback.
std::uint8_t ReadU8(std::span<const std::uint8_t> payload, std::uint8_t fallback) noexcept;
std::uint32_t ReadU32Be(std::span<const std::uint8_t> payload, std::uint32_t fallback) noexcept;
std::uint64_t ReadU64Be(std::span<const std::uint8_t> payload, std::uint64_t fallback) noexcept;
std::uint16_t ReadU16Be(std::span<const std::uint8_t> payload, std::uint16_t fallback) noexcept;
std::uint16_t ReadU16Host(std::span<const std::uint8_t> payload, std::uint16_t fallback) noexcept;
std::uint32_t ReadU32Host(std::span<const std::uint8_t> payload, std::uint32_t fallback) noexcept;
std::uint64_t ReadU64Host(std::span<const std::uint8_t> payload, std::uint64_t fallback) noexcept;
/** The payload up to the first NUL, or to its end. */
std::string_view ReadString(std::span<const std::uint8_t> payload) noexcept;

/** The attributes of one level, by type. Types above kMax are skipped. Later ones win. */
template <std::size_t kMax>
class AttrTable {
 public:
  explicit AttrTable(std::span<const std::uint8_t> attributes) noexcept {
    AttrReader reader(attributes);
    while (const auto attribute = reader.Next()) {
      if (attribute->type <= kMax) entries_[attribute->type] = attribute->payload;
    }
    malformed_ = reader.malformed();
  }

  bool malformed() const noexcept { return malformed_; }
  bool Has(std::size_t type) const noexcept { return entries_[type].data() != nullptr; }
  std::span<const std::uint8_t> Bytes(std::size_t type) const noexcept { return entries_[type]; }
  std::string_view String(std::size_t type) const noexcept { return ReadString(entries_[type]); }
  std::uint8_t U8(std::size_t type, std::uint8_t fallback = 0) const noexcept {
    return ReadU8(entries_[type], fallback);
  }
  std::uint16_t U16Be(std::size_t type, std::uint16_t fallback = 0) const noexcept {
    return ReadU16Be(entries_[type], fallback);
  }
  std::uint16_t U16Host(std::size_t type, std::uint16_t fallback = 0) const noexcept {
    return ReadU16Host(entries_[type], fallback);
  }
  std::uint32_t U32Be(std::size_t type, std::uint32_t fallback = 0) const noexcept {
    return ReadU32Be(entries_[type], fallback);
  }
  std::uint64_t U64Be(std::size_t type, std::uint64_t fallback = 0) const noexcept {
    return ReadU64Be(entries_[type], fallback);
  }
  std::uint32_t U32Host(std::size_t type, std::uint32_t fallback = 0) const noexcept {
    return ReadU32Host(entries_[type], fallback);
  }
  std::uint64_t U64Host(std::size_t type, std::uint64_t fallback = 0) const noexcept {
    return ReadU64Host(entries_[type], fallback);
  }

 private:
  std::array<std::span<const std::uint8_t>, kMax + 1> entries_{};
  bool malformed_ = false;
};

}  // namespace fairlead::wire

#endif  // FAIRLEAD_WIRE_ATTR_READER_H_
