// Runs a buffer of ops as one nf_tables transaction.
#ifndef FAIRLEAD_NFT_BATCH_H_
#define FAIRLEAD_NFT_BATCH_H_

#include <cstdint>
#include <expected>
#include <span>
#include <variant>

#include "nft/batch_writer.h"
#include "wire/socket.h"

namespace fairlead::nft {

/** The ops of a transaction. */
using Op =
    std::variant<protocol::op::TableAdd, protocol::op::TableOwn, protocol::op::TableBorrow,
                 protocol::op::TableDelete, protocol::op::ChainAdd, protocol::op::BaseChainAdd,
                 protocol::op::ChainDelete, protocol::op::ChainFlush, protocol::op::RuleAdd,
                 protocol::op::RuleDelete, protocol::op::SetAdd, protocol::op::SetDelete,
                 protocol::op::SetFlush, protocol::op::ElementsAdd, protocol::op::ElementsDelete,
                 protocol::op::XtRuleAdd, protocol::op::XtRuleInsert, protocol::op::ObjectDelete,
                 protocol::op::FlowtableAdd, protocol::op::FlowtableDevicesDelete>;

/** Encodes the ops, whose indices begin at `first_op`, as a transaction that is ready to send. */
std::expected<BatchWriter, BadOp> EncodeBatch(std::span<const std::uint8_t> ops,
                                              std::uint32_t first_sequence,
                                              std::uint32_t first_op = 0);

/**
 * Encodes and sends the ops, and reads the answers. On success the records are `committed`, and
 * `ruleHandle` for each op that asked for it; else one `failed` for each error.
 */
std::expected<ByteBuffer, SystemError> RunBatch(wire::Socket& socket,
                                                std::span<const std::uint8_t> ops,
                                                std::uint32_t first_op);

}  // namespace fairlead::nft

#endif  // FAIRLEAD_NFT_BATCH_H_
