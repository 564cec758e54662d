// Converts the expressions of a rule from and to records of the schema `expressions`.
#ifndef FAIRLEAD_NFT_EXPR_EXPRESSIONS_H_
#define FAIRLEAD_NFT_EXPR_EXPRESSIONS_H_

#include <cstdint>
#include <expected>
#include <span>

#include "protocol/ops.gen.h"
#include "wire/attr_reader.h"
#include "wire/message_writer.h"

namespace fairlead::nft::expr {

/**
 * Puts NFTA_RULE_EXPRESSIONS:
 *
 *   NFTA_LIST_ELEM     one for each expression
 *     NFTA_EXPR_NAME     string
 *     NFTA_EXPR_DATA     the parts of its form, see expressions.cc
 */
protocol::Checked Encode(std::span<const std::uint8_t> records, wire::MessageWriter& out);

/**
 * Reads the payload of NFTA_RULE_EXPRESSIONS. An expression that no record can express becomes a
 * record `unknown` with its NFTA_EXPR_NAME.
 */
wire::Taken Decode(std::span<const std::uint8_t> attributes, protocol::RecordWriter& out);

/** Puts NFTA_SET_EXPR, an expression as above, where `records` has one. */
protocol::Checked EncodeStatement(std::span<const std::uint8_t> records, wire::MessageWriter& out);

/** Reads the payload of such an attribute; false: it is malformed. */
bool DecodeStatement(std::span<const std::uint8_t> attribute, protocol::RecordWriter& out);

/** What the first counter of NFTA_RULE_EXPRESSIONS has seen; 0 = there is none. */
std::uint64_t Packets(std::span<const std::uint8_t> attributes) noexcept;

}  // namespace fairlead::nft::expr

#endif  // FAIRLEAD_NFT_EXPR_EXPRESSIONS_H_
