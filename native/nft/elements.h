#ifndef FAIRLEAD_NFT_ELEMENTS_H_
#define FAIRLEAD_NFT_ELEMENTS_H_

#include <string_view>

#include "nft/batch_writer.h"
#include "nft/element_sorter.h"
#include "nft/packed_entries.h"
#include "wire/attr_reader.h"

namespace fairlead::nft {

/** The statement of an element that counts packets, as NFTA_EXPR_NAME has it. */
inline constexpr std::string_view kCounterName = "counter";

/** As many messages as the entries need: the list in one message is at most 64 KiB. */
EncodeResult Encode(const protocol::op::ElementsAdd& op, BatchWriter& batch);
EncodeResult Encode(const protocol::op::ElementsDelete& op, BatchWriter& batch);
EncodeResult Encode(const protocol::op::SetFlush& op, BatchWriter& batch);

/**
 * The elements of NFT_MSG_NEWSETELEM, from its attributes on. What an element lacks reads as zero,
 * except that a missing key end is the key. A catch-all element is only counted, as strange. Fails
 * when a key or data has another length than the layout says.
 */
wire::Taken DecodeElements(const EntryLayout& layout, std::span<const std::uint8_t> attributes,
                           ElementSorter& found);

/**
 * Index, among the elements of the message, of the one whose attribute starts at `offset` of the
 * message (NLMSGERR_ATTR_OFFS); kUnknownIndex when none does.
 */
std::uint32_t ElementAt(std::span<const std::uint8_t> message, std::uint32_t offset) noexcept;

}  // namespace fairlead::nft

#endif  // FAIRLEAD_NFT_ELEMENTS_H_
