#ifndef FAIRLEAD_NFT_ELEMENTS_H_
#define FAIRLEAD_NFT_ELEMENTS_H_

#include <string_view>

#include "nft/batch_writer.h"
#include "nft/element_sorter.h"
#include "nft/packed_entries.h"
#include "wire/attr_reader.h"

namespace fairlead::nft {

/** NFTA_EXPR_NAME of the statement that counts an element's packets. */
inline constexpr std::string_view kCounterName = "counter";

// Write as many messages as the entries need, because the list in a message has at most 64 KiB.
EncodeResult Encode(const protocol::op::ElementsAdd& op, BatchWriter& batch);
EncodeResult Encode(const protocol::op::ElementsDelete& op, BatchWriter& batch);
/** NFT_MSG_DELSETELEM without a list. */
EncodeResult Encode(const protocol::op::SetFlush& op, BatchWriter& batch);

/**
 * Takes the elements of the attributes of NFT_MSG_NEWSETELEM. Missing attributes read as zero. A
 * catch-all element is counted as strange and not taken. Fails when the length of a key or of data
 * is not that of the layout.
 */
wire::Taken DecodeElements(const EntryLayout& layout, std::span<const std::uint8_t> attributes,
                           ElementSorter& found);

/**
 * Index in the message of the element whose attribute starts `offset` bytes after the start of the
 * message (NLMSGERR_ATTR_OFFS). kUnknownIndex when there is none.
 */
std::uint32_t ElementAt(std::span<const std::uint8_t> message, std::uint32_t offset) noexcept;

}  // namespace fairlead::nft

#endif  // FAIRLEAD_NFT_ELEMENTS_H_
