// Writes ops about tables, chains, rules, sets, flowtables and objects, and reads these objects.
//
// Encode appends the message of an op. Decode* append the record of an object; `attributes` are
// those of its message.
#ifndef FAIRLEAD_NFT_OBJECTS_H_
#define FAIRLEAD_NFT_OBJECTS_H_

#include "nft/batch_writer.h"
#include "wire/attr_reader.h"

namespace fairlead::nft {

/** NFT_MSG_NEWGEN { NFTA_GEN_ID be32, ... } */
wire::Taken DecodeGeneration(std::span<const std::uint8_t> attributes, protocol::RecordWriter& out);

EncodeResult Encode(const protocol::op::TableAdd& op, BatchWriter& batch);
EncodeResult Encode(const protocol::op::TableOwn& op, BatchWriter& batch);
EncodeResult Encode(const protocol::op::TableBorrow& op, BatchWriter& batch);
EncodeResult Encode(const protocol::op::TableDelete& op, BatchWriter& batch);

/** NFT_MSG_NEWTABLE */
wire::Taken DecodeTable(std::uint8_t family, std::span<const std::uint8_t> attributes,
                        protocol::RecordWriter& out);

EncodeResult Encode(const protocol::op::ChainAdd& op, BatchWriter& batch);
EncodeResult Encode(const protocol::op::BaseChainAdd& op, BatchWriter& batch);
EncodeResult Encode(const protocol::op::ChainDelete& op, BatchWriter& batch);

/**
 * NFT_MSG_NEWCHAIN. Skips chains of tables other than `only_table` (empty = all tables), because
 * the kernel cannot dump the chains of one table only.
 */
wire::Taken DecodeChain(std::uint8_t family, std::string_view only_table,
                        std::span<const std::uint8_t> attributes, protocol::RecordWriter& out);

EncodeResult Encode(const protocol::op::RuleAdd& op, BatchWriter& batch);
EncodeResult Encode(const protocol::op::RuleDelete& op, BatchWriter& batch);
EncodeResult Encode(const protocol::op::ChainFlush& op, BatchWriter& batch);
EncodeResult Encode(const protocol::op::XtRuleAdd& op, BatchWriter& batch);
EncodeResult Encode(const protocol::op::XtRuleInsert& op, BatchWriter& batch);

/** NFT_MSG_NEWRULE */
wire::Taken DecodeRule(std::uint8_t family, std::span<const std::uint8_t> attributes,
                       protocol::RecordWriter& out);

EncodeResult Encode(const protocol::op::SetAdd& op, BatchWriter& batch);
EncodeResult Encode(const protocol::op::SetDelete& op, BatchWriter& batch);

/** NFT_MSG_NEWSET */
wire::Taken DecodeSet(std::uint8_t family, std::span<const std::uint8_t> attributes,
                      protocol::RecordWriter& out);

EncodeResult Encode(const protocol::op::ObjectDelete& op, BatchWriter& batch);

/** NFT_MSG_NEWOBJ. Skips objects of tables other than `only_table` (empty = all tables). */
wire::Taken DecodeObject(std::uint8_t family, std::string_view only_table,
                         std::span<const std::uint8_t> attributes, protocol::RecordWriter& out);

EncodeResult Encode(const protocol::op::FlowtableAdd& op, BatchWriter& batch);
EncodeResult Encode(const protocol::op::FlowtableDevicesDelete& op, BatchWriter& batch);

/** NFT_MSG_NEWFLOWTABLE. Skips as DecodeObject does. */
wire::Taken DecodeFlowtable(std::uint8_t family, std::string_view only_table,
                            std::span<const std::uint8_t> attributes, protocol::RecordWriter& out);

}  // namespace fairlead::nft

#endif  // FAIRLEAD_NFT_OBJECTS_H_
