#include <linux/netfilter/nf_tables.h>
#include <linux/netlink.h>

#include "nft/objects.h"
#include "wire/attr_reader.h"

namespace fairlead::nft {

// NFT_MSG_NEWOBJ
//   NFTA_OBJ_TABLE  string
//   NFTA_OBJ_NAME   string
//   NFTA_OBJ_TYPE   be32

EncodeResult Encode(const protocol::op::ObjectDelete& op, BatchWriter& batch) {
  if (op.type == NFT_OBJECT_UNSPEC) {
    wire::MessageWriter& out = batch.Begin(NFT_MSG_DELFLOWTABLE, 0, op.family);
    out.PutString(NFTA_FLOWTABLE_TABLE, op.table);
    out.PutString(NFTA_FLOWTABLE_NAME, op.object);
  } else {
    wire::MessageWriter& out = batch.Begin(NFT_MSG_DELOBJ, 0, op.family);
    out.PutString(NFTA_OBJ_TABLE, op.table);
    out.PutString(NFTA_OBJ_NAME, op.object);
    out.PutU32Be(NFTA_OBJ_TYPE, op.type);
  }
  batch.End();
  return {};
}

wire::Taken DecodeObject(std::uint8_t family, std::string_view only_table,
                         std::span<const std::uint8_t> attributes, protocol::RecordWriter& out) {
  const wire::AttrTable<NFTA_OBJ_MAX> object(attributes);
  if (object.malformed()) return std::unexpected("object has a malformed attribute");
  const std::string_view table = object.String(NFTA_OBJ_TABLE);
  if (!only_table.empty() && table != only_table) return {};
  out.Append(protocol::reply::Object{family, table, object.U32Be(NFTA_OBJ_TYPE),
                                     object.String(NFTA_OBJ_NAME)});
  return {};
}

}  // namespace fairlead::nft
