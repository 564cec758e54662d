#ifndef FAIRLEAD_NFT_ELEMENT_SORTER_H_
#define FAIRLEAD_NFT_ELEMENT_SORTER_H_

#include <cstdint>
#include <span>
#include <vector>

#include "base/byte_buffer.h"
#include "nft/packed_entries.h"

namespace fairlead::nft {

/**
 * Collects the elements of one set, which the kernel sends in the order of its hash table, and
 * sorts them by key. So elements with a common prefix of the key are neighbours, and JavaScript
 * need not sort.
 *
 * It also detects dumps that miss elements although nothing changed. For each part of a dump the
 * kernel walks the set from its start and skips as many elements as it has sent (nft_rhash_walk).
 * After many additions it resizes the hash table in the background. When that happens during a
 * dump, the order changes: some elements are sent twice and as many are missed, without
 * NLM_F_DUMP_INTR. So an element that occurs twice shows that another is missing.
 */
class ElementSorter {
 public:
  explicit ElementSorter(const EntryLayout& layout) noexcept : layout_(layout) {}

  void Take(const Entry& entry);
  /** Counts an element that an entry cannot express. It may be taken as well, or not. */
  void CountStrange() noexcept { ++strange_; }

  std::uint32_t strange() const noexcept { return strange_; }
  /** Number of elements taken. One that came twice counts twice. */
  std::uint32_t count() const noexcept { return static_cast<std::uint32_t>(elements_.size()); }
  /** The packed entries, sorted by key. May be called once, at the end. */
  ByteBuffer Finish();
  /** Whether an element came twice. Valid after `Finish`. */
  bool disturbed() const noexcept { return disturbed_; }

 private:
  struct Element {
    /** Offset and length of its packed form. */
    std::uint32_t start;
    std::uint32_t length;
    /** One key may end an interval and start the next one. These are two elements. */
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
