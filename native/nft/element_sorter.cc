#include "nft/element_sorter.h"

#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>

#include <algorithm>
#include <cstring>

namespace fairlead::nft {

void ElementSorter::Take(const Entry& entry) {
  const std::size_t start = packed_.size();
  WriteEntry(layout_, entry, packed_);
  elements_.push_back({static_cast<std::uint32_t>(start),
                       static_cast<std::uint32_t>(packed_.size() - start),
                       entry.flags & NFT_SET_ELEM_INTERVAL_END});
}

/** The key. The packed form begins with it. */
std::span<const std::uint8_t> ElementSorter::Identity(const Element& element) const noexcept {
  return packed_.bytes().subspan(element.start, layout_.key_length);
}

ByteBuffer ElementSorter::Finish() {
  const auto compare = [this](const Element& a, const Element& b) noexcept {
    const auto left = Identity(a);
    const int order = std::memcmp(left.data(), Identity(b).data(), left.size());
    return order != 0 ? order
                      : static_cast<int>(a.ends_interval) - static_cast<int>(b.ends_interval);
  };
  std::sort(elements_.begin(), elements_.end(),
            [&](const Element& a, const Element& b) { return compare(a, b) < 0; });
  const auto same = [&](const Element& a, const Element& b) { return compare(a, b) == 0; };
  disturbed_ = std::adjacent_find(elements_.begin(), elements_.end(), same) != elements_.end();
  ByteBuffer sorted;
  sorted.Reserve(packed_.size());
  for (const Element& element : elements_) {
    std::memcpy(sorted.Extend(element.length), packed_.bytes().data() + element.start,
                element.length);
  }
  return sorted;
}

}  // namespace fairlead::nft
