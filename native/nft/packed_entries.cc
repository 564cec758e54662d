#include "nft/packed_entries.h"

#include <cstring>

#include "wire/byte_order.h"

namespace fairlead::nft {

namespace shape = protocol::element_shape;

namespace {

constexpr std::uint32_t kEveryPart =
    shape::kFlags | shape::kData | shape::kVerdict | shape::kCounter | shape::kComment;

void WriteBytes(std::span<const std::uint8_t> bytes, ByteBuffer& out) noexcept {
  if (!bytes.empty()) std::memcpy(out.Extend(bytes.size()), bytes.data(), bytes.size());
}

template <typename T>
void WriteNumber(T value, ByteBuffer& out) noexcept {
  wire::StoreHost(out.Extend(sizeof(value)), value);
}

void WriteText(std::string_view text, ByteBuffer& out) noexcept {
  const std::size_t length = text.size();
  WriteNumber(static_cast<std::uint32_t>(length), out);
  const std::size_t padding = -length & 3;
  std::uint8_t* written = out.Extend(length + padding);
  if (length > 0) std::memcpy(written, text.data(), length);
  std::memset(written + length, 0, padding);
}

void WriteVerdict(const Verdict& verdict, ByteBuffer& out) noexcept {
  WriteNumber(verdict.code, out);
  WriteText(verdict.chain, out);
}

}  // namespace

protocol::Checked EntryLayout::Check() const noexcept {
  // Entries without bytes would let a small buffer with a large count make a huge batch.
  if (key_length == 0) {
    return std::unexpected(protocol::BadRecord{"elements", "keyLength", "is zero"});
  }
  if ((shape & ~kEveryPart) != 0) {
    return std::unexpected(protocol::BadRecord{"elements", "shape", "has an unknown part"});
  }
  if (Has(shape::kData) && Has(shape::kVerdict)) {
    return std::unexpected(protocol::BadRecord{"elements", "shape", "has both data and a verdict"});
  }
  return {};
}

std::span<const std::uint8_t> EntryReader::Take(std::size_t length) noexcept {
  if (length > rest_.size()) {
    truncated_ = true;
    rest_ = {};
    return {};
  }
  const auto bytes = rest_.first(length);
  rest_ = rest_.subspan(length);
  return bytes;
}

std::uint32_t EntryReader::TakeWord() noexcept {
  const auto bytes = Take(4);
  return bytes.empty() ? 0 : wire::LoadHost<std::uint32_t>(bytes.data());
}

std::uint64_t EntryReader::TakeTwoWords() noexcept {
  const auto bytes = Take(8);
  return bytes.empty() ? 0 : wire::LoadHost<std::uint64_t>(bytes.data());
}

std::string_view EntryReader::TakeText() noexcept {
  const std::size_t length = TakeWord();
  const auto text = Take(length);
  Take(-length & 3);
  return {reinterpret_cast<const char*>(text.data()), text.size()};
}

Verdict EntryReader::TakeVerdict() noexcept {
  const auto code = static_cast<std::int32_t>(TakeWord());
  return {code, TakeText()};
}

std::expected<Entry, protocol::BadRecord> EntryReader::Next() noexcept {
  Entry entry;
  entry.key = Take(layout_.key_length);
  if (layout_.Has(shape::kFlags)) entry.flags = TakeWord();
  if (layout_.Has(shape::kData)) entry.data = Take(layout_.data_length);
  if (layout_.Has(shape::kVerdict)) entry.verdict = TakeVerdict();
  if (layout_.Has(shape::kCounter)) entry.packets = TakeTwoWords();
  if (layout_.Has(shape::kComment)) entry.comment = TakeText();
  if (truncated_) {
    return std::unexpected(
        protocol::BadRecord{"elements", "entries", "is shorter than its count says"});
  }
  return entry;
}

void WriteEntry(const EntryLayout& layout, const Entry& entry, ByteBuffer& out) noexcept {
  WriteBytes(entry.key, out);
  if (layout.Has(shape::kFlags)) WriteNumber(entry.flags, out);
  if (layout.Has(shape::kData)) WriteBytes(entry.data, out);
  if (layout.Has(shape::kVerdict)) WriteVerdict(entry.verdict, out);
  if (layout.Has(shape::kCounter)) WriteNumber(entry.packets, out);
  if (layout.Has(shape::kComment)) WriteText(entry.comment, out);
}

}  // namespace fairlead::nft
