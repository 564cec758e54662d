#include <linux/netfilter/nf_tables.h>
#include <linux/netlink.h>

#include "nft/objects.h"
#include "nft/userdata.h"
#include "wire/attr_reader.h"

namespace fairlead::nft {

// NFT_MSG_NEWCHAIN
//   NFTA_CHAIN_TABLE     string
//   NFTA_CHAIN_NAME      string
//   NFTA_CHAIN_HOOK      base chains only
//     NFTA_HOOK_HOOKNUM    be32
//     NFTA_HOOK_PRIORITY   be32, signed
//   NFTA_CHAIN_POLICY    be32   base chains only; without it nf_tables_updchain keeps the policy
//   NFTA_CHAIN_TYPE      string base chains only
//   NFTA_CHAIN_HANDLE    be64   (dumps)
//   NFTA_CHAIN_USE       be32   (dumps)
//   NFTA_CHAIN_FLAGS     be32   (dumps)
//   NFTA_CHAIN_USERDATA  comment

namespace {

constexpr std::uint32_t kNoHook = protocol::kUnknownIndex;

EncodeResult FinishChain(std::string_view comment, BatchWriter& batch) {
  const auto put =
      PutComment(batch.out(), NFTA_CHAIN_USERDATA, kCommentOfTableChainOrRule, comment);
  if (!put) return std::unexpected(put.error());
  batch.End();
  return {};
}

}  // namespace

EncodeResult Encode(const protocol::op::ChainAdd& op, BatchWriter& batch) {
  wire::MessageWriter& out = batch.Begin(NFT_MSG_NEWCHAIN, NLM_F_CREATE, op.family);
  out.PutString(NFTA_CHAIN_TABLE, op.table);
  out.PutString(NFTA_CHAIN_NAME, op.chain);
  return FinishChain(op.comment, batch);
}

EncodeResult Encode(const protocol::op::BaseChainAdd& op, BatchWriter& batch) {
  wire::MessageWriter& out = batch.Begin(NFT_MSG_NEWCHAIN, NLM_F_CREATE, op.family);
  out.PutString(NFTA_CHAIN_TABLE, op.table);
  out.PutString(NFTA_CHAIN_NAME, op.chain);
  const auto hook = out.BeginNest(NFTA_CHAIN_HOOK);
  out.PutU32Be(NFTA_HOOK_HOOKNUM, op.hook);
  out.PutU32Be(NFTA_HOOK_PRIORITY, static_cast<std::uint32_t>(op.priority));
  out.EndNest(hook);
  if (op.policy != protocol::kKeepPolicy) out.PutU32Be(NFTA_CHAIN_POLICY, op.policy);
  out.PutString(NFTA_CHAIN_TYPE, op.type);
  return FinishChain(op.comment, batch);
}

EncodeResult Encode(const protocol::op::ChainDelete& op, BatchWriter& batch) {
  wire::MessageWriter& out = batch.Begin(NFT_MSG_DELCHAIN, 0, op.family);
  out.PutString(NFTA_CHAIN_TABLE, op.table);
  out.PutString(NFTA_CHAIN_NAME, op.chain);
  batch.End();
  return {};
}

wire::Taken DecodeChain(std::uint8_t family, std::string_view only_table,
                        std::span<const std::uint8_t> attributes, protocol::RecordWriter& out) {
  const wire::AttrTable<NFTA_CHAIN_MAX> chain(attributes);
  const wire::AttrTable<NFTA_HOOK_MAX> hook(chain.Bytes(NFTA_CHAIN_HOOK));
  if (chain.malformed() || hook.malformed()) {
    return std::unexpected("chain has a malformed attribute");
  }
  protocol::reply::Chain reply;
  reply.family = family;
  reply.table = chain.String(NFTA_CHAIN_TABLE);
  if (!only_table.empty() && reply.table != only_table) return {};
  reply.chain = chain.String(NFTA_CHAIN_NAME);
  reply.handle = chain.U64Be(NFTA_CHAIN_HANDLE);
  reply.type = chain.String(NFTA_CHAIN_TYPE);
  reply.hook = hook.U32Be(NFTA_HOOK_HOOKNUM, kNoHook);
  reply.priority = static_cast<std::int32_t>(hook.U32Be(NFTA_HOOK_PRIORITY));
  reply.policy = chain.U32Be(NFTA_CHAIN_POLICY);
  reply.use = chain.U32Be(NFTA_CHAIN_USE);
  reply.flags = chain.U32Be(NFTA_CHAIN_FLAGS);
  reply.comment = ReadComment(chain.Bytes(NFTA_CHAIN_USERDATA), kCommentOfTableChainOrRule);
  out.Append(reply);
  return {};
}

}  // namespace fairlead::nft
