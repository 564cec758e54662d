#ifndef FAIRLEAD_NFT_TABLE_H_
#define FAIRLEAD_NFT_TABLE_H_

#include "nft/batch_writer.h"
#include "nft/decode_result.h"

namespace fairlead::nft {

EncodeResult Encode(const protocol::op::TableAdd& op, BatchWriter& batch);
EncodeResult Encode(const protocol::op::TableOwn& op, BatchWriter& batch);
EncodeResult Encode(const protocol::op::TableDelete& op, BatchWriter& batch);

/** NFT_MSG_NEWTABLE, from its attributes on, as a reply record. */
DecodeResult DecodeTable(std::uint8_t family, std::span<const std::uint8_t> attributes,
                         protocol::RecordWriter& out);

}  // namespace fairlead::nft

#endif  // FAIRLEAD_NFT_TABLE_H_
