// Tables of iptables-legacy: native/legacy/table.h, with entries laid out as the kernel gives them.
#include "legacy/table.h"

#include <linux/netfilter_ipv4/ip_tables.h>
#include <linux/netfilter_ipv6/ip6_tables.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <random>
#include <set>

#include "check.h"
#include "samples.h"

namespace fairlead::test {

namespace {

/** What a table means: chains by name, each rule by its target and a number of its own. */
using Model = std::map<std::string, std::vector<std::pair<std::string, int>>>;

constexpr const char* kFallThrough = "(next)";

std::uint16_t EntryBytes(std::uint8_t family) {
  return family == AF_INET6 ? sizeof(ip6t_entry) : sizeof(ipt_entry);
}

/** Writes a model as entries. A rule's number is its counter, and makes its matches longer. */
class Builder {
 public:
  Builder(std::uint8_t family, const Model& model) : family_(family) {
    static const std::map<std::string, unsigned> kHooks = {
        {"INPUT", NF_INET_LOCAL_IN}, {"FORWARD", NF_INET_FORWARD}, {"OUTPUT", NF_INET_LOCAL_OUT}};
    for (const auto& [name, rules] : model) {
      const auto hook = kHooks.find(name);
      const bool is_built_in = hook != kHooks.end();
      if (!is_built_in) AddError(name);
      starts_[name] = static_cast<std::uint32_t>(bytes.size());
      if (is_built_in) hooks.begin[hook->second] = starts_[name];
      for (const auto& [target, number] : rules) AddRule(target, number);
      if (is_built_in) {
        hooks.valid |= 1U << hook->second;
        hooks.policy[hook->second] = static_cast<std::uint32_t>(bytes.size());
      }
      AddVerdict(is_built_in ? -NF_ACCEPT - 1 : XT_RETURN, 0);
    }
    AddError("ERROR");
    for (const auto& [at, target] : jumps_) std::memcpy(&bytes[at], &starts_[target], 4);
  }

  Bytes bytes;
  legacy::Hooks hooks;

 private:
  std::uint8_t* Add(std::size_t matches, std::size_t target_bytes, std::uint64_t count) {
    const std::size_t start = bytes.size();
    const auto target = static_cast<std::uint16_t>(EntryBytes(family_) + matches);
    const auto next = static_cast<std::uint16_t>(target + target_bytes);
    bytes.resize(start + next);
    std::uint8_t* entry = bytes.data() + start;
    std::memset(entry + EntryBytes(family_), static_cast<int>(count), matches);
    const bool is_six = family_ == AF_INET6;
    std::memcpy(entry + (is_six ? offsetof(ip6t_entry, target_offset)
                                : offsetof(ipt_entry, target_offset)),
                &target, 2);
    std::memcpy(
        entry + (is_six ? offsetof(ip6t_entry, next_offset) : offsetof(ipt_entry, next_offset)),
        &next, 2);
    std::memcpy(
        entry + (is_six ? offsetof(ip6t_entry, counters) : offsetof(ipt_entry, counters)), &count,
        8);
    return entry + target;
  }

  void AddVerdict(std::int32_t verdict, int number) {
    const auto matches = static_cast<std::size_t>(number % 3) * 8;
    std::uint8_t* target =
        Add(matches, sizeof(xt_standard_target), static_cast<std::uint64_t>(number));
    std::memcpy(target + offsetof(xt_standard_target, verdict), &verdict, 4);
  }

  void AddRule(const std::string& target, int number) {
    if (target == "LOG") {
      std::uint8_t* at = Add(0, sizeof(xt_entry_target) + 16, static_cast<std::uint64_t>(number));
      std::strcpy(reinterpret_cast<char*>(at) + 2, "LOG");
      return;
    }
    AddVerdict(-NF_DROP - 1, number);
    const std::size_t at = bytes.size() - 8;
    if (target == kFallThrough) {
      const auto next = static_cast<std::uint32_t>(bytes.size());
      std::memcpy(&bytes[at], &next, 4);
    } else if (target != "DROP") {
      jumps_.emplace_back(at, target);
    }
  }

  void AddError(const std::string& name) {
    std::uint8_t* target = Add(0, sizeof(xt_error_target), 0);
    std::strcpy(reinterpret_cast<char*>(target) + 2, XT_ERROR_TARGET);
    name.copy(reinterpret_cast<char*>(target) + sizeof(xt_entry_target), XT_FUNCTION_MAXNAMELEN);
  }

  std::uint8_t family_;
  std::map<std::string, std::uint32_t> starts_;
  std::vector<std::pair<std::size_t, std::string>> jumps_;
};

Model RandomModel(std::mt19937& random) {
  const auto below = [&random](std::size_t n) { return random() % n; };
  std::vector<std::string> made = {"DOCKER", "KUBE-A", "KUBE-B", "KUBE-C", "mine"};
  std::vector<std::string> targets = {"DROP", "LOG", kFallThrough};
  Model model;
  int number = 0;
  // From the innermost on, so that there are no loops.
  made.insert(made.end(), {"FORWARD", "INPUT", "OUTPUT"});
  for (const std::string& name : made) {
    auto& rules = model[name];
    for (std::size_t i = below(5); i > 0; --i) {
      rules.emplace_back(targets[below(targets.size())], ++number);
    }
    targets.push_back(name);
    if (name == "mine") continue;
    if (name == "FORWARD" || name == "INPUT") targets.pop_back();
  }
  return model;
}

/** What should be left, or what refers to something that goes. */
bool RemoveFromModel(Model& model, const std::set<std::string>& chains,
                     const std::set<std::pair<std::string, std::string>>& jumps) {
  for (const std::string& name : chains) model.erase(name);
  for (auto& [name, rules] : model) {
    std::erase_if(rules, [&](const auto& rule) { return jumps.contains({name, rule.first}); });
    for (const auto& [target, number] : rules) {
      if (chains.contains(target)) return false;
    }
  }
  return true;
}

std::string Read(std::uint8_t family, const legacy::Hooks& hooks, const Bytes& entries) {
  const auto table = legacy::ReadTable(family, hooks, entries);
  if (!table) return table.error();
  std::string text;
  for (const legacy::Chain& chain : table->chains) {
    text += std::string(chain.name) + (chain.hook < 0 ? "" : chain.policy == 0 ? " DROP" : " ACCEPT");
    for (std::size_t i = chain.first_rule; i + 1 < chain.end; ++i) {
      const std::size_t to = table->entries[i].jumps_to;
      text += to == legacy::kNone ? " -" : " " + std::string(table->chains[to].name);
    }
    text += "; ";
  }
  return text;
}

}  // namespace

TEST("a legacy table is read as chains with their rules and where these jump") {
  const Model model = {{"INPUT", {{"KUBE-A", 1}, {kFallThrough, 2}, {"DROP", 3}}},
                       {"FORWARD", {}},
                       {"KUBE-A", {{"mine", 4}}},
                       {"mine", {{"LOG", 5}}}};
  for (const auto family : {std::uint8_t{AF_INET}, std::uint8_t{AF_INET6}}) {
    const Builder built(family, model);
    CHECK_EQUAL(Read(family, built.hooks, built.bytes),
                "FORWARD ACCEPT; INPUT ACCEPT KUBE-A - -; KUBE-A mine; mine -; ");
  }
}

TEST("what is left of random legacy tables is what a table without the removed would be") {
  std::mt19937 random(20261120);
  int removals = 0;
  for (int round = 0; round < 4000; ++round) {
    const std::uint8_t family = round % 2 == 0 ? AF_INET : AF_INET6;
    Model model = RandomModel(random);
    const Builder before(family, model);
    std::set<std::string> chains;
    std::set<std::pair<std::string, std::string>> jumps;
    for (const char* name : {"KUBE-A", "KUBE-B", "KUBE-C"}) {
      if (random() % 2 == 0) chains.insert(name);
      for (const char* from : {"INPUT", "FORWARD", "OUTPUT"}) {
        if (random() % 8 != 0) jumps.emplace(from, name);
      }
    }
    legacy::Removal removal;
    removal.chains.assign(chains.begin(), chains.end());
    for (const auto& [from, to] : jumps) removal.jumps.push_back({from, to});
    const auto table = legacy::ReadTable(family, before.hooks, before.bytes);
    CHECK(table.has_value());
    const auto left = legacy::Remove(removal, *table, before.hooks, before.bytes);
    const bool is_possible = RemoveFromModel(model, chains, jumps);
    CHECK_EQUAL(left.has_value(), is_possible);
    if (!left || !is_possible) continue;
    ++removals;
    const Builder expected(family, model);
    CHECK_EQUAL(left->bytes, expected.bytes);
    CHECK(left->hooks.begin == expected.hooks.begin);
    CHECK(left->hooks.policy == expected.hooks.policy);
    CHECK_EQUAL(left->hooks.valid, expected.hooks.valid);
    // What an entry counted goes with it.
    const auto again = legacy::ReadTable(family, left->hooks, left->bytes);
    CHECK_EQUAL(again->entries.size(), left->origins.size());
    for (std::size_t i = 0; i < left->origins.size(); ++i) {
      const legacy::Entry& from = table->entries[left->origins[i]];
      const std::size_t head = EntryBytes(family);
      const std::uint8_t* now = left->bytes.data() + again->entries[i].offset;
      CHECK(std::equal(now, now + head, before.bytes.data() + from.offset));
    }
  }
  CHECK(removals > 500);
}

TEST("chains of a legacy table that are needed or built in are not removed") {
  const Builder built(AF_INET, {{"INPUT", {{"mine", 1}}}, {"KUBE-A", {}}, {"mine", {{"KUBE-A", 2}}}});
  const auto table = legacy::ReadTable(AF_INET, built.hooks, built.bytes);
  const auto remove = [&](const char* name) {
    const auto left = legacy::Remove({{}, {name}}, *table, built.hooks, built.bytes);
    return left ? std::string("removed") : left.error();
  };
  CHECK_EQUAL(remove("KUBE-A"), "chain mine refers to chain KUBE-A");
  CHECK_EQUAL(remove("INPUT"), "chain INPUT is built in");
  CHECK_EQUAL(remove("nowhere"), "removed");
}

TEST("entries of a legacy table that do not fit are refused, wherever they end") {
  for (const auto family : {std::uint8_t{AF_INET}, std::uint8_t{AF_INET6}}) {
    const Builder built(family, {{"INPUT", {{"KUBE-A", 1}}}, {"KUBE-A", {}}});
    for (std::size_t length = 0; length < built.bytes.size(); ++length) {
      const Bytes part(built.bytes.begin(),
                       built.bytes.begin() + static_cast<std::ptrdiff_t>(length));
      CHECK(!legacy::ReadTable(family, built.hooks, part));
    }
    legacy::Hooks hooks = built.hooks;
    hooks.policy[NF_INET_LOCAL_IN] += 8;
    CHECK_EQUAL(Read(family, hooks, built.bytes), "a built-in chain does not end with its policy");
    CHECK_EQUAL(Read(family, {}, built.bytes), "an entry belongs to no chain");
  }
  const Builder built(AF_INET, {{"INPUT", {{"KUBE-A", 1}}}, {"KUBE-A", {}}});
  Bytes wrong = built.bytes;
  wrong[offsetof(ipt_entry, target_offset)] = 1;
  CHECK_EQUAL(Read(AF_INET, built.hooks, wrong), "an entry has offsets that are outside of it");
  wrong = built.bytes;
  // The verdict of the first rule, whose match has 8 bytes.
  wrong[sizeof(ipt_entry) + 8 + offsetof(xt_standard_target, verdict)] += 8;
  CHECK_EQUAL(Read(AF_INET, built.hooks, wrong), "a rule jumps to where no chain begins");
}

}  // namespace fairlead::test
