// Reads and writes the packed entries of a record about elements (ElementShape, src/kernel/ops.ts).
#ifndef FAIRLEAD_NFT_PACKED_ENTRIES_H_
#define FAIRLEAD_NFT_PACKED_ENTRIES_H_

#include <cstdint>
#include <expected>
#include <span>
#include <string_view>

#include "nft/verdict.h"
#include "protocol/ops.gen.h"

namespace fairlead::nft {

/** The parts of every entry of a record, and their lengths in bytes. */
struct EntryLayout {
  /** A bit of ElementShape for each part except the key. */
  std::uint32_t shape = 0;
  std::uint32_t key_length = 0;
  std::uint32_t data_length = 0;

  bool Has(std::uint32_t part) const noexcept { return (shape & part) != 0; }
  /** Refuses entries without a key, unknown parts, and data together with a verdict. */
  protocol::Checked Check() const noexcept;
};

struct Entry {
  std::span<const std::uint8_t> key;
  std::uint32_t flags = 0;
  std::span<const std::uint8_t> data;
  Verdict verdict;
  std::uint64_t packets = 0;
  std::string_view comment;
};

/** Walks packed entries. */
class EntryReader {
 public:
  EntryReader(const EntryLayout& layout, std::span<const std::uint8_t> entries) noexcept
      : layout_(layout), rest_(entries) {}

  std::expected<Entry, protocol::BadRecord> Next() noexcept;
  bool AtEnd() const noexcept { return rest_.empty(); }

 private:
  std::span<const std::uint8_t> Take(std::size_t length) noexcept;
  std::uint32_t TakeWord() noexcept;
  std::uint64_t TakeTwoWords() noexcept;
  std::string_view TakeText() noexcept;
  Verdict TakeVerdict() noexcept;

  EntryLayout layout_;
  std::span<const std::uint8_t> rest_;
  bool truncated_ = false;
};

/** Appends a packed entry. Its key and data must have the lengths of the layout. */
void WriteEntry(const EntryLayout& layout, const Entry& entry, ByteBuffer& out) noexcept;

}  // namespace fairlead::nft

#endif  // FAIRLEAD_NFT_PACKED_ENTRIES_H_
