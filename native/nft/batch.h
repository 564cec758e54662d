// A buffer of ops as one nf_tables transaction.
#ifndef FAIRLEAD_NFT_BATCH_H_
#define FAIRLEAD_NFT_BATCH_H_

#include <cstdint>
#include <expected>
#include <span>
#include <string>

#include "nft/batch_writer.h"
#include "wire/socket.h"

namespace fairlead::nft {

/** Whether the code is one of the schema `nftOps`. */
bool IsOp(std::uint32_t code) noexcept;

/** The op that a buffer of ops cannot be encoded for. */
struct BadOp {
  std::uint32_t op = 0;
  EncodeError error;
};

/** The whole transaction, ready to be sent. */
std::expected<BatchWriter, BadOp> EncodeBatch(std::span<const std::uint8_t> ops,
                                              std::uint32_t first_sequence);

/**
 * Encodes, sends, collects the answers: a record `committed` and one `ruleHandle` for each op that
 * asked, or one `failed` for each error.
 */
std::expected<ByteBuffer, SystemError> RunBatch(wire::Socket& socket,
                                                std::span<const std::uint8_t> ops);

}  // namespace fairlead::nft

#endif  // FAIRLEAD_NFT_BATCH_H_
