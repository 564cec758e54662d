#ifndef FAIRLEAD_NFT_RULE_H_
#define FAIRLEAD_NFT_RULE_H_

#include "nft/batch_writer.h"
#include "nft/decode_result.h"

namespace fairlead::nft {

EncodeResult Encode(const protocol::op::RuleAdd& op, BatchWriter& batch);
EncodeResult Encode(const protocol::op::RuleDelete& op, BatchWriter& batch);
EncodeResult Encode(const protocol::op::ChainFlush& op, BatchWriter& batch);
EncodeResult Encode(const protocol::op::XtRuleAdd& op, BatchWriter& batch);
EncodeResult Encode(const protocol::op::XtRuleInsert& op, BatchWriter& batch);
EncodeResult Encode(const protocol::op::XtRuleReplace& op, BatchWriter& batch);

/** NFT_MSG_NEWRULE, from its attributes on, as a reply record. */
DecodeResult DecodeRule(std::uint8_t family, std::span<const std::uint8_t> attributes,
                        protocol::RecordWriter& out);

}  // namespace fairlead::nft

#endif  // FAIRLEAD_NFT_RULE_H_
