#include "legacy/table.h"

#include <linux/netfilter_ipv4/ip_tables.h>
#include <linux/netfilter_ipv6/ip6_tables.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

namespace fairlead::legacy {

// A table is a row of entries, those of a chain one after the other:
//
//   struct ipt_entry    what a packet must be; target_offset, next_offset: from its beginning
//   matches
//   struct xt_entry_target { u16 size, char name[29], u8 revision }, what the target needs
//
// A built-in chain ends with an entry for its policy. One that somebody made begins with an entry
// whose target `ERROR` bears its name, and ends with one that returns. A last `ERROR` ends the
// table.

namespace {

/** Offsets of the fields that tell where an entry's parts are. */
struct Layout {
  std::size_t target_offset;
  std::size_t next_offset;
  std::size_t bytes;
};

constexpr Layout kIpv4{offsetof(ipt_entry, target_offset), offsetof(ipt_entry, next_offset),
                       sizeof(ipt_entry)};
constexpr Layout kIpv6{offsetof(ip6t_entry, target_offset), offsetof(ip6t_entry, next_offset),
                       sizeof(ip6t_entry)};

std::uint16_t LoadU16(std::span<const std::uint8_t> bytes, std::size_t at) noexcept {
  std::uint16_t value;
  std::memcpy(&value, bytes.data() + at, sizeof(value));
  return value;
}

std::string_view TextAt(std::span<const std::uint8_t> field) noexcept {
  const auto end = std::find(field.begin(), field.end(), std::uint8_t{0});
  return {reinterpret_cast<const char*>(field.data()),
          static_cast<std::size_t>(end - field.begin())};
}

/** The name in a target `ERROR`; empty data() for any other target. */
std::string_view ErrorName(std::span<const std::uint8_t> target) noexcept {
  constexpr std::size_t kName = offsetof(xt_entry_target, u.user.name);
  if (target.size() < sizeof(xt_error_target)) return {};
  if (TextAt(target.subspan(kName, XT_EXTENSION_MAXNAMELEN)) != XT_ERROR_TARGET) return {};
  return TextAt(target.subspan(offsetof(xt_error_target, errorname), XT_FUNCTION_MAXNAMELEN));
}

}  // namespace

std::expected<Contents, const char*> ReadEntries(std::uint8_t family, std::uint32_t built_in_chains,
                                                 std::span<const std::uint8_t> entries) {
  const Layout& layout = family == AF_INET6 ? kIpv6 : kIpv4;
  Contents contents;
  std::uint32_t count = 0;
  while (!entries.empty()) {
    if (entries.size() < layout.bytes) return std::unexpected("an entry is truncated");
    const std::size_t target = LoadU16(entries, layout.target_offset);
    const std::size_t next = LoadU16(entries, layout.next_offset);
    if (target < layout.bytes || next < target || next > entries.size()) {
      return std::unexpected("an entry has offsets that are outside of it");
    }
    const std::string_view name = ErrorName(entries.subspan(target, next - target));
    if (name.data() != nullptr) contents.chains.push_back(name);
    ++count;
    entries = entries.subspan(next);
  }
  // The last one ends the table.
  if (!contents.chains.empty()) contents.chains.pop_back();
  const auto marks = built_in_chains + 2 * static_cast<std::uint32_t>(contents.chains.size()) + 1;
  contents.rules = count > marks ? count - marks : 0;
  return contents;
}

}  // namespace fairlead::legacy
