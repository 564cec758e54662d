#ifndef FAIRLEAD_NFT_ELEMENT_SORTER_H_
#define FAIRLEAD_NFT_ELEMENT_SORTER_H_

#include <cstdint>
#include <span>
#include <vector>

#include "base/byte_buffer.h"
#include "nft/packed_entries.h"

namespace fairlead::nft {

/**
 * Collects the elements of one set as the kernel gives them, in the order of its hash table, and
 * hands them out by key: what belongs together comes together, and that costs JavaScript nothing.
 *
 * It also notices dumps that miss elements although nothing changed. For each part of a dump the
 * kernel walks the set from its start and skips as many elements as it has given already
 * (nft_rhash_walk). When the table is resized in between, which happens in the background after
 * many elements were added, the order differs: some elements come twice and as many never, without
 * NLM_F_DUMP_INTR. A missed one therefore always shows in another that comes twice.
 */
class ElementSorter {
 public:
  explicit ElementSorter(const EntryLayout& layout) noexcept : layout_(layout) {}

  void Take(const Entry& entry);
  /** Elements with what no entry can hold, whether they are taken or not. */
  void CountStrange() noexcept { ++strange_; }

  std::uint32_t strange() const noexcept { return strange_; }
  /** How many there are; none is left out when some came twice. */
  std::uint32_t count() const noexcept { return static_cast<std::uint32_t>(elements_.size()); }
  /** The packed entries by key. May be called once, at the end. */
  ByteBuffer Finish();
  /** Whether an element came twice. To be asked after `Finish`. */
  bool disturbed() const noexcept { return disturbed_; }

 private:
  struct Element {
    /** Where its packed form starts, and how long it is. */
    std::uint32_t start;
    std::uint32_t length;
    /** One address may both end an interval and start the next: these are two elements. */
    std::uint32_t ends_interval;
  };

  std::span<const std::uint8_t> Identity(const Element& element) const noexcept;

  EntryLayout layout_;
  ByteBuffer packed_;
  std::vector<Element> elements_;
  std::uint32_t strange_ = 0;
  bool disturbed_ = false;
};

}  // namespace fairlead::nft

#endif  // FAIRLEAD_NFT_ELEMENT_SORTER_H_
