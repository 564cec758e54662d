// Tables of the older ip_tables and ip6_tables, as getsockopt gives them.
#ifndef FAIRLEAD_LEGACY_TABLE_H_
#define FAIRLEAD_LEGACY_TABLE_H_

#include <cstdint>
#include <expected>
#include <span>
#include <string_view>
#include <vector>

namespace fairlead::legacy {

/** What a table holds. The names are parts of the entries that it was read from. */
struct Contents {
  /** Rules, without the policies of built-in chains and without what marks the ends of chains. */
  std::uint32_t rules = 0;
  /** Chains that somebody made, in their order. */
  std::vector<std::string_view> chains;
};

/**
 * Reads the entries of a table of `family` (AF_INET or AF_INET6). `built_in_chains`: how many
 * chains of the table are at a hook. On failure: what is wrong with them, a literal.
 */
std::expected<Contents, const char*> ReadEntries(std::uint8_t family, std::uint32_t built_in_chains,
                                                 std::span<const std::uint8_t> entries);

}  // namespace fairlead::legacy

#endif  // FAIRLEAD_LEGACY_TABLE_H_
