#ifndef FAIRLEAD_NFT_SET_H_
#define FAIRLEAD_NFT_SET_H_

#include "nft/batch_writer.h"
#include "nft/decode_result.h"

namespace fairlead::nft {

EncodeResult Encode(const protocol::op::SetAdd& op, BatchWriter& batch);
EncodeResult Encode(const protocol::op::SetDelete& op, BatchWriter& batch);

/** NFT_MSG_NEWSET, from its attributes on, as a reply record. */
DecodeResult DecodeSet(std::uint8_t family, std::span<const std::uint8_t> attributes,
                       protocol::RecordWriter& out);

}  // namespace fairlead::nft

#endif  // FAIRLEAD_NFT_SET_H_
