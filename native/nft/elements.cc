#include "nft/elements.h"

#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>

#include <array>
#include <optional>

#include "nft/userdata.h"
#include "wire/attr_reader.h"

namespace fairlead::nft {

// NFT_MSG_NEWSETELEM, NFT_MSG_DELSETELEM
//   NFTA_SET_ELEM_LIST_TABLE     string
//   NFTA_SET_ELEM_LIST_SET       string
//   NFTA_SET_ELEM_LIST_ELEMENTS
//     NFTA_LIST_ELEM               one for each element
//       NFTA_SET_ELEM_KEY            { NFTA_DATA_VALUE }; not in a catch-all element
//       NFTA_SET_ELEM_FLAGS          be32
//       NFTA_SET_ELEM_DATA           { NFTA_DATA_VALUE } or { NFTA_DATA_VERDICT }
//       NFTA_SET_ELEM_USERDATA       a comment
//       NFTA_SET_ELEM_EXPR           (dumps) a statement, e.g. a counter
//         NFTA_EXPR_NAME               string
//         NFTA_EXPR_DATA
//           NFTA_COUNTER_PACKETS         be64
//       NFTA_SET_ELEM_EXPRESSIONS, _OBJREF  (dumps) several statements, an object

namespace {

namespace shape = protocol::element_shape;

constexpr std::size_t kMessageHeaderBytes = NLMSG_HDRLEN + sizeof(nfgenmsg);
constexpr protocol::BadRecord kTooLong{"elements", "entries", "has an entry over 64 KiB"};

struct SetPath {
  std::uint8_t family;
  std::string_view table;
  std::string_view set;
};

void PutSet(const SetPath& target, wire::MessageWriter& out) {
  out.PutString(NFTA_SET_ELEM_LIST_TABLE, target.table);
  out.PutString(NFTA_SET_ELEM_LIST_SET, target.set);
}

/** Puts the attributes that identify the element. A deletion needs no others. */
void PutKey(const Entry& entry, wire::MessageWriter& out) noexcept {
  if ((entry.flags & NFT_SET_ELEM_CATCHALL) == 0) PutValue(out, NFTA_SET_ELEM_KEY, entry.key);
  if (entry.flags != 0) out.PutU32Be(NFTA_SET_ELEM_FLAGS, entry.flags);
}

protocol::Checked PutForAdd(const EntryLayout& layout, const Entry& entry,
                            wire::MessageWriter& out) noexcept {
  PutKey(entry, out);
  // An element that ends an interval has no data (nft_add_set_elem: EINVAL).
  if ((entry.flags & NFT_SET_ELEM_INTERVAL_END) != 0) return {};
  if (layout.Has(shape::kData)) PutValue(out, NFTA_SET_ELEM_DATA, entry.data);
  if (layout.Has(shape::kVerdict)) PutVerdict(out, NFTA_SET_ELEM_DATA, entry.verdict);
  return PutComment(out, NFTA_SET_ELEM_USERDATA, kCommentOfElement, entry.comment);
}

template <typename PutEntry>
EncodeResult EncodeEntries(const SetPath& target, std::uint16_t type, std::uint16_t flags,
                           EntryReader entries, std::uint32_t count, BatchWriter& batch,
                           PutEntry put_entry) {
  wire::MessageWriter& out = batch.out();
  std::uint32_t index = 0;
  while (index < count) {
    const std::uint32_t first = index;
    PutSet(target, batch.Begin(type, flags, target.family, first));
    const auto list = out.BeginNest(NFTA_SET_ELEM_LIST_ELEMENTS);
    for (; index < count; ++index) {
      const EntryReader before = entries;
      const std::size_t size = out.size();
      const auto entry = entries.Next();
      if (!entry) return std::unexpected(BadOp(entry.error(), index));
      const auto element = out.BeginNest(NFTA_LIST_ELEM);
      const auto put = put_entry(*entry, out);
      if (!put) return std::unexpected(BadOp(put.error(), index));
      out.EndNest(element);
      if (out.overflowed()) return std::unexpected(BadOp(kTooLong, index));
      if (out.NestBytes(list) <= wire::MessageWriter::kAttributeBytesMax) continue;
      // The message is full. The element goes into the next one.
      out.Truncate(size);
      entries = before;
      break;
    }
    if (index == first) return std::unexpected(BadOp(kTooLong, index));
    out.EndNest(list);
    batch.End();
  }
  if (entries.AtEnd()) return {};
  return std::unexpected(
      protocol::BadRecord{"elements", "entries", "is longer than its count says"});
}

template <typename Op>
SetPath SetPathOf(const Op& op) {
  return {op.family, op.table, op.set};
}

using Element = wire::AttrTable<NFTA_SET_ELEM_MAX>;

/** The packets of the element's counter. Nothing when its statement is not a counter. */
std::optional<std::uint64_t> PacketsOf(const Element& element) noexcept {
  const wire::AttrTable<NFTA_EXPR_MAX> statement(element.Bytes(NFTA_SET_ELEM_EXPR));
  if (statement.String(NFTA_EXPR_NAME) != kCounterName) return std::nullopt;
  const wire::AttrTable<NFTA_COUNTER_MAX> counter(statement.Bytes(NFTA_EXPR_DATA));
  return counter.U64Be(NFTA_COUNTER_PACKETS);
}

/** Whether the element has attributes that an entry cannot express. */
bool IsStrange(const EntryLayout& layout, const Element& element) noexcept {
  const bool is_counted = layout.Has(shape::kCounter) && PacketsOf(element).has_value();
  const bool is_comment = layout.Has(shape::kComment) &&
                          IsComment(element.Bytes(NFTA_SET_ELEM_USERDATA), kCommentOfElement);
  return (element.Has(NFTA_SET_ELEM_USERDATA) && !is_comment) ||
         element.Has(NFTA_SET_ELEM_EXPRESSIONS) || element.Has(NFTA_SET_ELEM_OBJREF) ||
         (element.Has(NFTA_SET_ELEM_EXPR) && !is_counted);
}

wire::Taken DecodeElement(const EntryLayout& layout, std::span<const std::uint8_t> attributes,
                          std::span<const std::uint8_t> zeroes, ElementSorter& found) {
  const Element element(attributes);
  if (element.malformed()) return std::unexpected("element has a malformed attribute");
  Entry entry;
  entry.flags = element.U32Be(NFTA_SET_ELEM_FLAGS);
  if ((entry.flags & NFT_SET_ELEM_CATCHALL) != 0) {
    found.CountStrange();
    return {};
  }
  if (IsStrange(layout, element)) found.CountStrange();
  const auto none = std::span(zeroes);
  entry.key = ReadValue(element.Bytes(NFTA_SET_ELEM_KEY)).value_or(none.first(layout.key_length));
  if (entry.key.size() != layout.key_length) {
    return std::unexpected("element has a key of another length than asked for");
  }
  const auto data = element.Bytes(NFTA_SET_ELEM_DATA);
  entry.data = ReadValue(data).value_or(none.first(layout.data_length));
  if (layout.Has(shape::kData) && entry.data.size() != layout.data_length) {
    return std::unexpected("element has data of another length than asked for");
  }
  entry.verdict = ReadVerdict(data).value_or(Verdict{});
  if (layout.Has(shape::kCounter)) entry.packets = PacketsOf(element).value_or(0);
  entry.comment = ReadComment(element.Bytes(NFTA_SET_ELEM_USERDATA), kCommentOfElement);
  found.Take(entry);
  return {};
}

}  // namespace

EncodeResult Encode(const protocol::op::ElementsAdd& op, BatchWriter& batch) {
  const EntryLayout layout{op.shape, op.key_length, op.data_length};
  if (const auto checked = layout.Check(); !checked) return std::unexpected(checked.error());
  if (layout.Has(shape::kCounter)) {
    return std::unexpected(protocol::BadRecord{"elementsAdd", "shape", "has a part of dumps"});
  }
  return EncodeEntries(SetPathOf(op), NFT_MSG_NEWSETELEM, NLM_F_CREATE,
                       EntryReader(layout, op.entries), op.count, batch,
                       [&layout](const Entry& entry, wire::MessageWriter& out) noexcept {
                         return PutForAdd(layout, entry, out);
                       });
}

EncodeResult Encode(const protocol::op::ElementsDelete& op, BatchWriter& batch) {
  const EntryLayout layout{op.shape, op.key_length, op.data_length};
  if (const auto checked = layout.Check(); !checked) return std::unexpected(checked.error());
  return EncodeEntries(SetPathOf(op), NFT_MSG_DELSETELEM, 0, EntryReader(layout, op.entries),
                       op.count, batch,
                       [](const Entry& entry, wire::MessageWriter& out) noexcept {
                         PutKey(entry, out);
                         return protocol::Checked{};
                       });
}

// Without a list, NFT_MSG_DELSETELEM deletes every element (nf_tables_delsetelem).
EncodeResult Encode(const protocol::op::SetFlush& op, BatchWriter& batch) {
  PutSet(SetPathOf(op), batch.Begin(NFT_MSG_DELSETELEM, 0, op.family));
  batch.End();
  return {};
}

wire::Taken DecodeElements(const EntryLayout& layout, std::span<const std::uint8_t> attributes,
                           ElementSorter& found) {
  // NFT_DATA_VALUE_MAXLEN: the longest key and data of nf_tables.
  static constexpr std::array<std::uint8_t, 64> kZeroes{};
  if (layout.key_length > kZeroes.size() || layout.data_length > kZeroes.size()) {
    return std::unexpected("element has at most 64 bytes of key and of data");
  }
  const wire::AttrTable<NFTA_SET_ELEM_LIST_MAX> list(attributes);
  if (list.malformed()) return std::unexpected("element list has a malformed attribute");
  wire::AttrReader elements(list.Bytes(NFTA_SET_ELEM_LIST_ELEMENTS));
  while (const auto element = elements.Next()) {
    auto decoded = DecodeElement(layout, element->payload, kZeroes, found);
    if (!decoded) return decoded;
  }
  if (elements.malformed()) return std::unexpected("element list has a malformed element");
  return {};
}

std::uint32_t ElementAt(std::span<const std::uint8_t> message, std::uint32_t offset) noexcept {
  if (message.size() < kMessageHeaderBytes) return protocol::kUnknownIndex;
  const wire::AttrTable<NFTA_SET_ELEM_LIST_MAX> list(message.subspan(kMessageHeaderBytes));
  wire::AttrReader elements(list.Bytes(NFTA_SET_ELEM_LIST_ELEMENTS));
  for (std::uint32_t index = 0;; ++index) {
    const auto element = elements.Next();
    if (!element) return protocol::kUnknownIndex;
    const auto start = element->payload.data() - NLA_HDRLEN - message.data();
    if (start == static_cast<std::ptrdiff_t>(offset)) return index;
  }
}

}  // namespace fairlead::nft
