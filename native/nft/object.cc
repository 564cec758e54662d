#include <linux/netfilter/nf_tables.h>
#include <linux/netlink.h>

#include "nft/objects.h"
#include "wire/attr_reader.h"

namespace fairlead::nft {

// NFT_MSG_NEWOBJ               NFT_MSG_NEWFLOWTABLE
//   NFTA_OBJ_TABLE  string       NFTA_FLOWTABLE_TABLE  string
//   NFTA_OBJ_NAME   string       NFTA_FLOWTABLE_NAME   string
//   NFTA_OBJ_TYPE   be32

namespace {

wire::Taken Write(std::uint8_t family, std::string_view only_table, std::string_view table,
                  std::uint32_t type, std::string_view name, protocol::RecordWriter& out) {
  if (!only_table.empty() && table != only_table) return {};
  out.Append(protocol::reply::Object{family, table, type, name});
  return {};
}

}  // namespace

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
  return Write(family, only_table, object.String(NFTA_OBJ_TABLE), object.U32Be(NFTA_OBJ_TYPE),
               object.String(NFTA_OBJ_NAME), out);
}

wire::Taken DecodeFlowtable(std::uint8_t family, std::string_view only_table,
                            std::span<const std::uint8_t> attributes, protocol::RecordWriter& out) {
  const wire::AttrTable<NFTA_FLOWTABLE_MAX> flowtable(attributes);
  if (flowtable.malformed()) return std::unexpected("flowtable has a malformed attribute");
  return Write(family, only_table, flowtable.String(NFTA_FLOWTABLE_TABLE), NFT_OBJECT_UNSPEC,
               flowtable.String(NFTA_FLOWTABLE_NAME), out);
}

}  // namespace fairlead::nft
