#include "nft/rule.h"

#include <linux/netfilter/nf_tables.h>
#include <linux/netlink.h>

#include "nft/expr/expressions.h"
#include "nft/userdata.h"
#include "wire/attr_reader.h"

namespace fairlead::nft {

// NFT_MSG_NEWRULE
//   NFTA_RULE_TABLE        string
//   NFTA_RULE_CHAIN        string
//   NFTA_RULE_HANDLE       be64   which rule to replace or delete; the rule's own in dumps
//   NFTA_RULE_EXPRESSIONS  see expr/expressions.h
//   NFTA_RULE_USERDATA     comment

namespace {

void PutPlace(wire::MessageWriter& out, std::string_view table, std::string_view chain) {
  out.PutString(NFTA_RULE_TABLE, table);
  out.PutString(NFTA_RULE_CHAIN, chain);
}

EncodeResult FinishRule(std::span<const std::uint8_t> expressions, std::string_view comment,
                        BatchWriter& batch) {
  const auto encoded = expr::Encode(expressions, batch.out());
  if (!encoded) return std::unexpected(encoded.error());
  const auto put = PutComment(batch.out(), NFTA_RULE_USERDATA, kCommentOfTableChainOrRule, comment);
  if (!put) return std::unexpected(put.error());
  batch.End();
  return {};
}

}  // namespace

EncodeResult Encode(const protocol::op::RuleAdd& op, BatchWriter& batch) {
  PutPlace(batch.Begin(NFT_MSG_NEWRULE, NLM_F_CREATE | NLM_F_APPEND, op.family), op.table,
           op.chain);
  return FinishRule(op.expressions, op.comment, batch);
}

EncodeResult Encode(const protocol::op::RuleInsert& op, BatchWriter& batch) {
  PutPlace(batch.Begin(NFT_MSG_NEWRULE, NLM_F_CREATE, op.family), op.table, op.chain);
  return FinishRule(op.expressions, op.comment, batch);
}

EncodeResult Encode(const protocol::op::RuleReplace& op, BatchWriter& batch) {
  wire::MessageWriter& out = batch.Begin(NFT_MSG_NEWRULE, NLM_F_REPLACE, op.family);
  PutPlace(out, op.table, op.chain);
  out.PutU64Be(NFTA_RULE_HANDLE, op.handle);
  return FinishRule(op.expressions, op.comment, batch);
}

EncodeResult Encode(const protocol::op::RuleDelete& op, BatchWriter& batch) {
  wire::MessageWriter& out = batch.Begin(NFT_MSG_DELRULE, 0, op.family);
  PutPlace(out, op.table, op.chain);
  out.PutU64Be(NFTA_RULE_HANDLE, op.handle);
  batch.End();
  return {};
}

// Without a handle, NFT_MSG_DELRULE deletes every rule of the chain (nf_tables_delrule).
EncodeResult Encode(const protocol::op::ChainFlush& op, BatchWriter& batch) {
  PutPlace(batch.Begin(NFT_MSG_DELRULE, 0, op.family), op.table, op.chain);
  batch.End();
  return {};
}

DecodeResult DecodeRule(std::uint8_t family, std::span<const std::uint8_t> attributes,
                        protocol::RecordWriter& out) {
  const wire::AttrTable<NFTA_RULE_MAX> rule(attributes);
  if (rule.malformed()) return Malformed("rule", "has a malformed attribute");
  protocol::RecordWriter expressions;
  const auto decoded = expr::Decode(rule.Bytes(NFTA_RULE_EXPRESSIONS), expressions);
  if (!decoded) return decoded;
  protocol::reply::Rule reply;
  reply.family = family;
  reply.table = rule.String(NFTA_RULE_TABLE);
  reply.chain = rule.String(NFTA_RULE_CHAIN);
  reply.handle = rule.U64Be(NFTA_RULE_HANDLE);
  reply.expressions = expressions.bytes();
  reply.comment = ReadComment(rule.Bytes(NFTA_RULE_USERDATA), kCommentOfTableChainOrRule);
  reply.Write(out);
  return {};
}

}  // namespace fairlead::nft
