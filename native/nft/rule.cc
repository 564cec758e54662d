#include <linux/netfilter/nf_tables.h>
#include <linux/netlink.h>

#include "nft/expr/expressions.h"
#include "nft/objects.h"
#include "nft/userdata.h"
#include "wire/attr_reader.h"

namespace fairlead::nft {

// NFT_MSG_NEWRULE
//   NFTA_RULE_TABLE        string
//   NFTA_RULE_CHAIN        string
//   NFTA_RULE_HANDLE       be64   the rule to delete; in dumps the rule itself
//   NFTA_RULE_POSITION     be64   handle of the rule to add behind, or to insert before
//   NFTA_RULE_EXPRESSIONS  see expr/expressions.h
//   NFTA_RULE_COMPAT       for matches and targets of iptables; not in dumps
//     NFTA_RULE_COMPAT_PROTO  be32, IPPROTO_*
//     NFTA_RULE_COMPAT_FLAGS  be32
//   NFTA_RULE_USERDATA     comment

namespace {

void PutChain(wire::MessageWriter& out, std::string_view table, std::string_view chain) {
  out.PutString(NFTA_RULE_TABLE, table);
  out.PutString(NFTA_RULE_CHAIN, chain);
}

std::uint16_t EchoFlag(std::uint8_t echo) { return echo == 0 ? 0 : NLM_F_ECHO; }

/** Puts the expressions and NFTA_RULE_COMPAT of a rule of iptables, and ends its message. */
template <typename Op>
EncodeResult FinishXtRule(const Op& op, BatchWriter& batch) {
  if (op.echo != 0) batch.ExpectEcho();
  wire::MessageWriter& out = batch.out();
  const auto encoded = expr::Encode(op.expressions, out);
  if (!encoded) return std::unexpected(encoded.error());
  const auto compat = out.BeginNest(NFTA_RULE_COMPAT);
  out.PutU32Be(NFTA_RULE_COMPAT_PROTO, op.protocol);
  out.PutU32Be(NFTA_RULE_COMPAT_FLAGS, 0);
  out.EndNest(compat);
  batch.End();
  return {};
}

template <typename Op>
EncodeResult EncodeNewXtRule(const Op& op, std::uint16_t flags, BatchWriter& batch) {
  flags = static_cast<std::uint16_t>(flags | NLM_F_CREATE | EchoFlag(op.echo));
  wire::MessageWriter& out = batch.Begin(NFT_MSG_NEWRULE, flags, op.family);
  PutChain(out, op.table, op.chain);
  if (op.position != 0) out.PutU64Be(NFTA_RULE_POSITION, op.position);
  return FinishXtRule(op, batch);
}

}  // namespace

EncodeResult Encode(const protocol::op::RuleAdd& op, BatchWriter& batch) {
  PutChain(batch.Begin(NFT_MSG_NEWRULE, NLM_F_CREATE | NLM_F_APPEND, op.family), op.table,
           op.chain);
  const auto encoded = expr::Encode(op.expressions, batch.out());
  if (!encoded) return std::unexpected(encoded.error());
  const auto put =
      PutComment(batch.out(), NFTA_RULE_USERDATA, kCommentOfTableChainOrRule, op.comment);
  if (!put) return std::unexpected(put.error());
  batch.End();
  return {};
}

EncodeResult Encode(const protocol::op::RuleDelete& op, BatchWriter& batch) {
  wire::MessageWriter& out = batch.Begin(NFT_MSG_DELRULE, EchoFlag(op.echo), op.family);
  if (op.echo != 0) batch.WelcomeEcho();
  PutChain(out, op.table, op.chain);
  out.PutU64Be(NFTA_RULE_HANDLE, op.handle);
  batch.End();
  return {};
}

// Without a handle, NFT_MSG_DELRULE deletes every rule of the chain (nf_tables_delrule).
EncodeResult Encode(const protocol::op::ChainFlush& op, BatchWriter& batch) {
  PutChain(batch.Begin(NFT_MSG_DELRULE, 0, op.family), op.table, op.chain);
  batch.End();
  return {};
}

EncodeResult Encode(const protocol::op::XtRuleAdd& op, BatchWriter& batch) {
  return EncodeNewXtRule(op, NLM_F_APPEND, batch);
}

EncodeResult Encode(const protocol::op::XtRuleInsert& op, BatchWriter& batch) {
  return EncodeNewXtRule(op, 0, batch);
}

wire::Taken DecodeRule(std::uint8_t family, std::span<const std::uint8_t> attributes,
                       protocol::RecordWriter& out) {
  const wire::AttrTable<NFTA_RULE_MAX> rule(attributes);
  if (rule.malformed()) return std::unexpected("rule has a malformed attribute");
  protocol::RecordWriter expressions;
  auto decoded = expr::Decode(rule.Bytes(NFTA_RULE_EXPRESSIONS), expressions);
  if (!decoded) return decoded;
  protocol::reply::Rule reply;
  reply.family = family;
  reply.table = rule.String(NFTA_RULE_TABLE);
  reply.chain = rule.String(NFTA_RULE_CHAIN);
  reply.handle = rule.U64Be(NFTA_RULE_HANDLE);
  reply.packets = expr::Packets(rule.Bytes(NFTA_RULE_EXPRESSIONS));
  reply.expressions = expressions.bytes();
  reply.comment = ReadComment(rule.Bytes(NFTA_RULE_USERDATA), kCommentOfTableChainOrRule);
  out.Append(reply);
  return {};
}

}  // namespace fairlead::nft
