#ifndef FAIRLEAD_NFT_GENERATION_H_
#define FAIRLEAD_NFT_GENERATION_H_

#include <cstdint>
#include <span>

#include "nft/decode_result.h"
#include "protocol/ops.gen.h"

namespace fairlead::nft {

/** NFT_MSG_NEWGEN { NFTA_GEN_ID be32, ... }, from its attributes on, as a reply record. */
DecodeResult DecodeGeneration(std::span<const std::uint8_t> attributes,
                              protocol::RecordWriter& out);

}  // namespace fairlead::nft

#endif  // FAIRLEAD_NFT_GENERATION_H_
