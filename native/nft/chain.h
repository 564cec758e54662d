#ifndef FAIRLEAD_NFT_CHAIN_H_
#define FAIRLEAD_NFT_CHAIN_H_

#include "nft/batch_writer.h"
#include "nft/decode_result.h"

namespace fairlead::nft {

EncodeResult Encode(const protocol::op::ChainAdd& op, BatchWriter& batch);
EncodeResult Encode(const protocol::op::BaseChainAdd& op, BatchWriter& batch);
EncodeResult Encode(const protocol::op::ChainDelete& op, BatchWriter& batch);

/**
 * NFT_MSG_NEWCHAIN, from its attributes on, as a reply record. The kernel cannot dump the chains of
 * one table only: chains of tables other than `only_table` give nothing (empty = all tables).
 */
DecodeResult DecodeChain(std::uint8_t family, std::string_view only_table,
                         std::span<const std::uint8_t> attributes, protocol::RecordWriter& out);

}  // namespace fairlead::nft

#endif  // FAIRLEAD_NFT_CHAIN_H_
