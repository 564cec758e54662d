#include "nft/walk_check.h"

#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>

#include <algorithm>
#include <functional>
#include <string_view>

namespace fairlead::nft {

namespace {

std::uint64_t Hash(std::span<const std::uint8_t> bytes) noexcept {
  return std::hash<std::string_view>()({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

}  // namespace

// One address may both end an interval and start the next: the flag tells these elements apart.
void WalkCheck::Take(const Entry& entry) {
  constexpr std::uint64_t kOddMultiplier = 0x9e3779b97f4a7c15;
  const std::uint64_t end = Hash(entry.key_end) + (entry.flags & NFT_SET_ELEM_INTERVAL_END);
  hashes_.push_back(Hash(entry.key) ^ (end * kOddMultiplier));
}

bool WalkCheck::Disturbed() {
  std::sort(hashes_.begin(), hashes_.end());
  return std::adjacent_find(hashes_.begin(), hashes_.end()) != hashes_.end();
}

}  // namespace fairlead::nft
