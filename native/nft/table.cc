#include "nft/table.h"

#include <linux/netfilter/nf_tables.h>
#include <linux/netlink.h>

#include "nft/userdata.h"
#include "wire/attr_reader.h"

namespace fairlead::nft {

// NFT_MSG_NEWTABLE
//   NFTA_TABLE_NAME      string
//   NFTA_TABLE_FLAGS     be32   (dumps)
//   NFTA_TABLE_HANDLE    be64   (dumps)
//   NFTA_TABLE_USERDATA  comment

EncodeResult Encode(const protocol::op::TableAdd& op, BatchWriter& batch) {
  wire::MessageWriter& out = batch.Begin(NFT_MSG_NEWTABLE, NLM_F_CREATE, op.family);
  out.PutString(NFTA_TABLE_NAME, op.table);
  const auto put = PutComment(out, NFTA_TABLE_USERDATA, kCommentOfTableChainOrRule, op.comment);
  if (!put) return std::unexpected(put.error());
  batch.End();
  return {};
}

EncodeResult Encode(const protocol::op::TableDelete& op, BatchWriter& batch) {
  batch.Begin(NFT_MSG_DELTABLE, 0, op.family).PutString(NFTA_TABLE_NAME, op.table);
  batch.End();
  return {};
}

DecodeResult DecodeTable(std::uint8_t family, std::span<const std::uint8_t> attributes,
                         protocol::RecordWriter& out) {
  const wire::AttrTable<NFTA_TABLE_MAX> table(attributes);
  if (table.malformed()) return Malformed("table", "has a malformed attribute");
  protocol::reply::Table reply;
  reply.family = family;
  reply.table = table.String(NFTA_TABLE_NAME);
  reply.handle = table.U64Be(NFTA_TABLE_HANDLE);
  reply.flags = table.U32Be(NFTA_TABLE_FLAGS);
  reply.comment = ReadComment(table.Bytes(NFTA_TABLE_USERDATA), kCommentOfTableChainOrRule);
  reply.Write(out);
  return {};
}

}  // namespace fairlead::nft
