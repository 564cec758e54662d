// Tables of ip_tables and ip6_tables, which iptables-legacy uses, in the form of getsockopt(2).
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

/** Offsets of entries of the built-in chains, by hook (NF_INET_*). */
struct Hooks {
  /** A bit for each hook at which the table has a chain. */
  std::uint32_t valid = 0;
  /** The first entry of the chain (ipt_getinfo.hook_entry). */
  std::array<std::uint32_t, NF_INET_NUMHOOKS> begin{};
  /** Its last entry, which is its policy (ipt_getinfo.underflow). */
  std::array<std::uint32_t, NF_INET_NUMHOOKS> policy{};
};

constexpr std::size_t kNone = SIZE_MAX;

struct Entry {
  std::uint32_t offset = 0;
  std::uint32_t bytes = 0;
  /** Offset of its target from the entry's start. */
  std::uint32_t target = 0;
  /** Index of the chain that it jumps or goes to; kNone for none. */
  std::size_t jumps_to = kNone;
};

struct Chain {
  /** Such as `INPUT` for a built-in chain; else refers to the entries that were read. */
  std::string_view name;
  /** NF_INET_* of a built-in chain, else -1. */
  int hook = -1;
  /** NF_ACCEPT or NF_DROP of a built-in chain. */
  std::uint32_t policy = NF_ACCEPT;
  /** Indices of its entries: [begin, end). The rules among them: [first_rule, end - 1). */
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
 * them, as a literal.
 */
std::expected<Table, const char*> ReadTable(std::uint8_t family, const Hooks& hooks,
                                            std::span<const std::uint8_t> entries);

/** The jumps and chains to remove. Missing ones are ignored. */
struct Removal {
  struct Jump {
    std::string_view chain;
    std::string_view target;
  };
  /** Removes every rule of the chain that jumps or goes to the target. */
  std::vector<Jump> jumps;
  /** Removes the chains with their rules. */
  std::vector<std::string_view> chains;
};

/** A table after a removal. */
struct Remainder {
  Hooks hooks;
  std::vector<std::uint8_t> bytes;
  /** For each entry its index before the removal. */
  std::vector<std::size_t> origins;
};

/**
 * Removes entries of `table`, which was read from `entries`. The other entries keep their bytes,
 * except for the offsets that rules jump to. On failure: a rule that stays refers to a removed
 * chain, or a chain to remove is built in.
 */
std::expected<Remainder, std::string> Remove(const Removal& removal, const Table& table,
                                             const Hooks& hooks,
                                             std::span<const std::uint8_t> entries);

}  // namespace fairlead::legacy

#endif  // FAIRLEAD_LEGACY_TABLE_H_
