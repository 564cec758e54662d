#ifndef FAIRLEAD_NFT_OBJECT_H_
#define FAIRLEAD_NFT_OBJECT_H_

#include <string_view>

#include "nft/batch_writer.h"
#include "nft/decode_result.h"

namespace fairlead::nft {

EncodeResult Encode(const protocol::op::ObjectDelete& op, BatchWriter& batch);

/** NFT_MSG_NEWOBJ, from its attributes on, as a reply record; nothing of another table. */
DecodeResult DecodeObject(std::uint8_t family, std::string_view only_table,
                          std::span<const std::uint8_t> attributes, protocol::RecordWriter& out);

/** NFT_MSG_NEWFLOWTABLE, likewise. */
DecodeResult DecodeFlowtable(std::uint8_t family, std::string_view only_table,
                             std::span<const std::uint8_t> attributes,
                             protocol::RecordWriter& out);

}  // namespace fairlead::nft

#endif  // FAIRLEAD_NFT_OBJECT_H_
