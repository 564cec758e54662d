#include <linux/netfilter/nf_tables.h>
#include <linux/netlink.h>

#include "nft/objects.h"
#include "nft/userdata.h"
#include "wire/attr_reader.h"

namespace fairlead::nft {

// NFT_MSG_NEWTABLE
//   NFTA_TABLE_NAME      string
//   NFTA_TABLE_FLAGS     be32   owned tables; without it nf_tables_updtable keeps the flags
//   NFTA_TABLE_HANDLE    be64   (dumps)
//   NFTA_TABLE_USERDATA  comment
//   NFTA_TABLE_OWNER     be32   (dumps) netlink port of the owner

namespace {

// NFT_TABLE_F_OWNER of Linux 5.12 and NFT_TABLE_F_PERSIST of 6.9. Older headers lack them.
constexpr std::uint32_t kOwner = 1 << 1;
constexpr std::uint32_t kPersist = 1 << 2;

EncodeResult EncodeNewTable(BatchWriter& batch, std::uint8_t family, std::string_view name,
                            std::string_view comment, std::uint32_t flags) {
  wire::MessageWriter& out = batch.Begin(NFT_MSG_NEWTABLE, NLM_F_CREATE, family);
  out.PutString(NFTA_TABLE_NAME, name);
  if (flags != 0) out.PutU32Be(NFTA_TABLE_FLAGS, flags);
  const auto put = PutComment(out, NFTA_TABLE_USERDATA, kCommentOfTableChainOrRule, comment);
  if (!put) return std::unexpected(put.error());
  batch.End();
  return {};
}

}  // namespace

EncodeResult Encode(const protocol::op::TableAdd& op, BatchWriter& batch) {
  return EncodeNewTable(batch, op.family, op.table, op.comment, 0);
}

EncodeResult Encode(const protocol::op::TableOwn& op, BatchWriter& batch) {
  return EncodeNewTable(batch, op.family, op.table, op.comment, kOwner | kPersist);
}

EncodeResult Encode(const protocol::op::TableBorrow& op, BatchWriter& batch) {
  return EncodeNewTable(batch, op.family, op.table, op.comment, kOwner);
}

EncodeResult Encode(const protocol::op::TableDelete& op, BatchWriter& batch) {
  batch.Begin(NFT_MSG_DELTABLE, 0, op.family).PutString(NFTA_TABLE_NAME, op.table);
  batch.End();
  return {};
}

wire::Taken DecodeTable(std::uint8_t family, std::span<const std::uint8_t> attributes,
                        protocol::RecordWriter& out) {
  const wire::AttrTable<NFTA_TABLE_MAX> table(attributes);
  if (table.malformed()) return std::unexpected("table has a malformed attribute");
  protocol::reply::Table reply;
  reply.family = family;
  reply.table = table.String(NFTA_TABLE_NAME);
  reply.handle = table.U64Be(NFTA_TABLE_HANDLE);
  reply.flags = table.U32Be(NFTA_TABLE_FLAGS);
  reply.owner = table.U32Be(NFTA_TABLE_OWNER);
  reply.comment = ReadComment(table.Bytes(NFTA_TABLE_USERDATA), kCommentOfTableChainOrRule);
  out.Append(reply);
  return {};
}

wire::Taken DecodeGeneration(std::span<const std::uint8_t> attributes,
                             protocol::RecordWriter& out) {
  const wire::AttrTable<NFTA_GEN_MAX> generation(attributes);
  if (generation.malformed() || !generation.Has(NFTA_GEN_ID)) {
    return std::unexpected("generation has no id");
  }
  out.Append(protocol::reply::Generation{generation.U32Be(NFTA_GEN_ID)});
  return {};
}

}  // namespace fairlead::nft
