// Tables of the older ip_tables and ip6_tables, as getsockopt gives and setsockopt takes them.
#ifndef FAIRLEAD_LEGACY_TABLE_H_
#define FAIRLEAD_LEGACY_TABLE_H_

#include <linux/netfilter.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace fairlead::legacy {

/** Where the built-in chains are, by hook (NF_INET_*): offsets of entries. */
struct Hooks {
  /** A bit for each hook at which the table has a chain. */
  std::uint32_t valid = 0;
  /** The first entry of the chain. */
  std::array<std::uint32_t, NF_INET_NUMHOOKS> begin{};
  /** Its last one, which is its policy. */
  std::array<std::uint32_t, NF_INET_NUMHOOKS> policy{};
};

constexpr std::size_t kNone = SIZE_MAX;

struct Entry {
  std::uint32_t offset = 0;
  std::uint32_t bytes = 0;
  /** Of its target, from the beginning of the entry. */
  std::uint32_t target = 0;
  /** The chain that it jumps or goes to, an index; kNone for none. */
  std::size_t jumps_to = kNone;
};

struct Chain {
  /** `INPUT` for one at a hook; else a part of the entries that it was read from. */
  std::string_view name;
  /** NF_INET_*; -1 for a chain that somebody made. */
  int hook = -1;
  /** NF_ACCEPT or NF_DROP, of a chain at a hook. */
  std::uint32_t policy = NF_ACCEPT;
  /** Its entries: [begin, end), indexes. The rules among them: [first_rule, end - 1). */
  std::size_t begin = 0;
  std::size_t first_rule = 0;
  std::size_t end = 0;
};

struct Table {
  std::vector<Entry> entries;
  std::vector<Chain> chains;
};

/**
 * Reads the entries of a table of `family` (AF_INET or AF_INET6). On failure: what is wrong with
 * them, a literal.
 */
std::expected<Table, const char*> ReadTable(std::uint8_t family, const Hooks& hooks,
                                            std::span<const std::uint8_t> entries);

/** What is to go. What is not there is gone already. */
struct Removal {
  struct Jump {
    std::string_view chain;
    std::string_view target;
  };
  /** Every rule of the chain that jumps or goes to the target. */
  std::vector<Jump> jumps;
  /** With their rules. */
  std::vector<std::string_view> chains;
};

/** A table without what was removed. */
struct Remainder {
  Hooks hooks;
  std::vector<std::uint8_t> bytes;
  /** For each entry, which it was of those before. */
  std::vector<std::size_t> origins;
};

/**
 * `table` was read from `entries`. Every byte of what stays is as before, but for the offsets that
 * rules jump to. On failure: what still needs a chain that is to go, or that it is built in.
 */
std::expected<Remainder, std::string> Remove(const Removal& removal, const Table& table,
                                             const Hooks& hooks,
                                             std::span<const std::uint8_t> entries);

}  // namespace fairlead::legacy

#endif  // FAIRLEAD_LEGACY_TABLE_H_
