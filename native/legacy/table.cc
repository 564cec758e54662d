#include "legacy/table.h"

#include <linux/netfilter_ipv4/ip_tables.h>
#include <linux/netfilter_ipv6/ip6_tables.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstddef>
#include <unordered_map>

#include "wire/attr_reader.h"
#include "wire/byte_order.h"

namespace fairlead::legacy {

// A table is a sequence of entries. Those of a chain follow one another:
//
//   struct ipt_entry    addresses to compare; target_offset, next_offset: from the entry's start
//   matches
//   struct xt_entry_target { u16 size, char name[29], u8 revision }, then the target's data
//
// A built-in chain ends with an entry for its policy. Another chain begins with an entry whose
// target `ERROR` has the chain's name, and ends with an entry that returns. A last `ERROR` ends the
// table.
//
// The standard target has an empty name. Its verdict: below zero it is -1 - NF_*, else the
// offset in the table of the entry to continue with. That is the first rule of a chain, or the next
// entry, for a rule that only counts.

namespace {

/** Offsets of the fields that say where an entry's parts are. */
struct Layout {
  std::size_t target_offset;
  std::size_t next_offset;
  std::size_t bytes;
};

constexpr Layout kIpv4{offsetof(ipt_entry, target_offset), offsetof(ipt_entry, next_offset),
                       sizeof(ipt_entry)};
constexpr Layout kIpv6{offsetof(ip6t_entry, target_offset), offsetof(ip6t_entry, next_offset),
                       sizeof(ip6t_entry)};

constexpr std::array<std::string_view, NF_INET_NUMHOOKS> kHookNames = {
    "PREROUTING", "INPUT", "FORWARD", "OUTPUT", "POSTROUTING"};

using Bytes = std::span<const std::uint8_t>;

Bytes TargetOf(const Entry& entry, Bytes entries) noexcept {
  return entries.subspan(entry.offset + entry.target, entry.bytes - entry.target);
}

bool IsNamed(Bytes target, std::string_view name) noexcept {
  constexpr std::size_t kName = offsetof(xt_entry_target, u.user.name);
  return wire::ReadString(target.subspan(kName, XT_EXTENSION_MAXNAMELEN)) == name;
}

/** The name in a target `ERROR`; empty data() for any other target. */
std::string_view ErrorName(const Entry& entry, Bytes entries) noexcept {
  const Bytes target = TargetOf(entry, entries);
  if (target.size() < sizeof(xt_error_target) || !IsNamed(target, XT_ERROR_TARGET)) return {};
  constexpr std::size_t kName = offsetof(xt_error_target, errorname);
  return wire::ReadString(target.subspan(kName, XT_FUNCTION_MAXNAMELEN));
}

/** Offset of the verdict of a standard target from the entry's start; 0 for other targets. */
std::size_t VerdictAt(const Entry& entry, Bytes entries) noexcept {
  const Bytes target = TargetOf(entry, entries);
  if (target.size() < sizeof(xt_standard_target) || !IsNamed(target, XT_STANDARD_TARGET)) return 0;
  return entry.target + offsetof(xt_standard_target, verdict);
}

std::int32_t LoadVerdict(const Entry& entry, std::size_t at, Bytes entries) noexcept {
  return wire::LoadHost<std::int32_t>(entries.data() + entry.offset + at);
}

std::expected<std::vector<Entry>, const char*> ReadEntries(const Layout& layout, Bytes entries) {
  std::vector<Entry> read;
  for (Bytes rest = entries; !rest.empty();) {
    if (rest.size() < layout.bytes) return std::unexpected("an entry is truncated");
    const std::uint32_t target = wire::LoadHost<std::uint16_t>(rest.data() + layout.target_offset);
    const std::uint32_t next = wire::LoadHost<std::uint16_t>(rest.data() + layout.next_offset);
    const bool fits = target >= layout.bytes && next >= target + sizeof(xt_entry_target);
    if (!fits || next > rest.size()) {
      return std::unexpected("an entry has offsets that are outside of it");
    }
    read.push_back({static_cast<std::uint32_t>(entries.size() - rest.size()), next, target, kNone});
    rest = rest.subspan(next);
  }
  return read;
}

/** The hook whose chain begins at the offset; -1 for none. */
int HookAt(std::uint32_t offset, const Hooks& hooks) noexcept {
  for (unsigned hook = 0; hook < NF_INET_NUMHOOKS; ++hook) {
    const bool is_there = (hooks.valid >> hook & 1) != 0;
    if (is_there && hooks.begin[hook] == offset) return static_cast<int>(hook);
  }
  return -1;
}

/** Sets the end of a chain and its policy. Returns what is wrong with it, or nullptr. */
const char* EndChain(Chain& chain, std::size_t end, const Hooks& hooks, const Table& table,
                     Bytes entries) {
  chain.end = end;
  if (chain.first_rule >= end) return "a chain has no end";
  if (chain.hook < 0) return nullptr;
  const Entry& last = table.entries[end - 1];
  const std::size_t at = VerdictAt(last, entries);
  const auto policy = at == 0 ? 0 : -1 - LoadVerdict(last, at, entries);
  const bool is_policy = at != 0 && (policy == NF_ACCEPT || policy == NF_DROP);
  if (!is_policy || last.offset != hooks.policy[static_cast<unsigned>(chain.hook)]) {
    return "a built-in chain does not end with its policy";
  }
  chain.policy = static_cast<std::uint32_t>(policy);
  return nullptr;
}

const char* ReadChains(const Hooks& hooks, Bytes entries, Table& table) {
  if (table.entries.empty()) return "there are no entries";
  const std::size_t end = table.entries.size() - 1;
  if (ErrorName(table.entries[end], entries).data() == nullptr) return "the table has no end";
  for (std::size_t i = 0; i <= end; ++i) {
    const int hook = HookAt(table.entries[i].offset, hooks);
    const std::string_view name = ErrorName(table.entries[i], entries);
    const bool is_header = name.data() != nullptr;
    if (hook < 0 && !is_header) {
      if (table.chains.empty()) return "an entry belongs to no chain";
      continue;
    }
    if (!table.chains.empty()) {
      const char* problem = EndChain(table.chains.back(), i, hooks, table, entries);
      if (problem != nullptr) return problem;
    }
    if (i == end) return nullptr;
    if (is_header) {
      table.chains.push_back({.name = name, .begin = i, .first_rule = i + 1});
    } else {
      const auto built_in = kHookNames[static_cast<unsigned>(hook)];
      table.chains.push_back({.name = built_in, .hook = hook, .begin = i, .first_rule = i});
    }
  }
  return nullptr;
}

const char* ReadJumps(Bytes entries, Table& table) {
  std::unordered_map<std::uint32_t, std::size_t> starts;
  for (std::size_t i = 0; i < table.chains.size(); ++i) {
    const Chain& chain = table.chains[i];
    if (chain.hook < 0) starts.emplace(table.entries[chain.first_rule].offset, i);
  }
  for (Entry& entry : table.entries) {
    const std::size_t at = VerdictAt(entry, entries);
    const std::int32_t verdict = at == 0 ? -1 : LoadVerdict(entry, at, entries);
    if (verdict < 0) continue;
    const auto offset = static_cast<std::uint32_t>(verdict);
    if (offset == entry.offset + entry.bytes) continue;
    const auto found = starts.find(offset);
    if (found == starts.end()) return "a rule jumps to where no chain begins";
    entry.jumps_to = found->second;
  }
  return nullptr;
}

/** The indices of the entries and chains that a removal deletes. */
class Deletions {
 public:
  static std::expected<Deletions, std::string> Of(const Removal& removal, const Table& table) {
    Deletions deletions(table);
    std::unordered_map<std::string_view, std::size_t> names;
    for (std::size_t i = 0; i < table.chains.size(); ++i) names.emplace(table.chains[i].name, i);
    for (const std::string_view name : removal.chains) {
      const auto found = names.find(name);
      if (found == names.end()) continue;
      const Chain& chain = table.chains[found->second];
      if (chain.hook >= 0) return std::unexpected("chain " + std::string(name) + " is built in");
      deletions.chains_[found->second] = true;
      std::fill_n(deletions.entries_.begin() + static_cast<std::ptrdiff_t>(chain.begin),
                  chain.end - chain.begin, true);
    }
    for (const auto& [name, target] : removal.jumps) {
      const auto from = names.find(name);
      const auto to = names.find(target);
      if (from == names.end() || to == names.end()) continue;
      const Chain& chain = table.chains[from->second];
      for (std::size_t i = chain.first_rule; i < chain.end; ++i) {
        if (table.entries[i].jumps_to == to->second) deletions.entries_[i] = true;
      }
    }
    return deletions;
  }

  bool entry(std::size_t index) const { return entries_[index]; }
  bool chain(std::size_t index) const { return chains_[index]; }

 private:
  explicit Deletions(const Table& table)
      : entries_(table.entries.size()), chains_(table.chains.size()) {}

  std::vector<bool> entries_;
  std::vector<bool> chains_;
};

/** The first remaining rule that refers to a deleted chain, as text; empty if there is none. */
std::string Reference(const Deletions& gone, const Table& table) {
  for (const Chain& chain : table.chains) {
    for (std::size_t i = chain.first_rule; i < chain.end; ++i) {
      const std::size_t to = table.entries[i].jumps_to;
      if (to == kNone || gone.entry(i) || !gone.chain(to)) continue;
      return "chain " + std::string(chain.name) + " refers to chain " +
             std::string(table.chains[to].name);
    }
  }
  return {};
}

/** The new offset of each entry. A deleted entry gets that of the next one that stays. */
std::vector<std::uint32_t> Offsets(const Deletions& gone, const Table& table) {
  std::vector<std::uint32_t> offsets;
  offsets.reserve(table.entries.size());
  std::uint32_t offset = 0;
  for (std::size_t i = 0; i < table.entries.size(); ++i) {
    offsets.push_back(offset);
    if (!gone.entry(i)) offset += table.entries[i].bytes;
  }
  return offsets;
}

}  // namespace

std::expected<Table, const char*> ReadTable(std::uint8_t family, const Hooks& hooks,
                                            std::span<const std::uint8_t> entries) {
  auto read = ReadEntries(family == AF_INET6 ? kIpv6 : kIpv4, entries);
  if (!read) return std::unexpected(read.error());
  Table table{std::move(*read), {}};
  const char* problem = ReadChains(hooks, entries, table);
  if (problem == nullptr) problem = ReadJumps(entries, table);
  if (problem != nullptr) return std::unexpected(problem);
  return table;
}

std::expected<Remainder, std::string> Remove(const Removal& removal, const Table& table,
                                             const Hooks& hooks,
                                             std::span<const std::uint8_t> entries) {
  const auto gone = Deletions::Of(removal, table);
  if (!gone) return std::unexpected(gone.error());
  std::string reference = Reference(*gone, table);
  if (!reference.empty()) return std::unexpected(std::move(reference));
  const std::vector<std::uint32_t> offsets = Offsets(*gone, table);
  Remainder left;
  left.hooks.valid = hooks.valid;
  for (const Chain& chain : table.chains) {
    if (chain.hook < 0) continue;
    const auto hook = static_cast<unsigned>(chain.hook);
    left.hooks.begin[hook] = offsets[chain.begin];
    left.hooks.policy[hook] = offsets[chain.end - 1];
  }
  for (std::size_t i = 0; i < table.entries.size(); ++i) {
    if (gone->entry(i)) continue;
    const Entry& entry = table.entries[i];
    const Bytes bytes = entries.subspan(entry.offset, entry.bytes);
    left.bytes.insert(left.bytes.end(), bytes.begin(), bytes.end());
    left.origins.push_back(i);
    const std::size_t at = VerdictAt(entry, entries);
    if (at == 0 || LoadVerdict(entry, at, entries) < 0) continue;
    const std::uint32_t to = entry.jumps_to == kNone
                                 ? offsets[i] + entry.bytes
                                 : offsets[table.chains[entry.jumps_to].first_rule];
    wire::StoreHost(left.bytes.data() + offsets[i] + at, to);
  }
  return left;
}

}  // namespace fairlead::legacy
