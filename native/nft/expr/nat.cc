#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>

#include "nft/expr/codecs.h"
#include "wire/attr_reader.h"

namespace fairlead::nft::expr {

// nat: translates the source or destination to what registers hold
//   NFTA_NAT_TYPE           be32, NFT_NAT_SNAT, NFT_NAT_DNAT
//   NFTA_NAT_FAMILY         be32, NFPROTO_*
//   NFTA_NAT_REG_ADDR_MIN   be32
//   NFTA_NAT_REG_ADDR_MAX   be32
//   NFTA_NAT_REG_PROTO_MIN  be32
//   NFTA_NAT_REG_PROTO_MAX  be32
//   NFTA_NAT_FLAGS          be32, NF_NAT_RANGE_*

namespace {

void PutRegister(std::uint16_t attribute, std::uint32_t reg, MessageWriter& out) {
  if (reg != protocol::kNoRegister) out.PutU32Be(attribute, reg);
}

}  // namespace

void Put(const expression::Nat& nat, MessageWriter& out) {
  out.PutU32Be(NFTA_NAT_TYPE, nat.type);
  out.PutU32Be(NFTA_NAT_FAMILY, nat.family);
  PutRegister(NFTA_NAT_REG_ADDR_MIN, nat.address_min, out);
  PutRegister(NFTA_NAT_REG_ADDR_MAX, nat.address_max, out);
  PutRegister(NFTA_NAT_REG_PROTO_MIN, nat.port_min, out);
  PutRegister(NFTA_NAT_REG_PROTO_MAX, nat.port_max, out);
  if (nat.flags != 0) out.PutU32Be(NFTA_NAT_FLAGS, nat.flags);
}

bool DecodeNat(Attributes attributes, RecordWriter& out) {
  const wire::AttrTable<NFTA_NAT_MAX> nat(attributes);
  expression::Nat record;
  record.type = nat.U32Be(NFTA_NAT_TYPE);
  record.family = nat.U32Be(NFTA_NAT_FAMILY);
  record.address_min = nat.U32Be(NFTA_NAT_REG_ADDR_MIN, protocol::kNoRegister);
  record.address_max = nat.U32Be(NFTA_NAT_REG_ADDR_MAX, protocol::kNoRegister);
  record.port_min = nat.U32Be(NFTA_NAT_REG_PROTO_MIN, protocol::kNoRegister);
  record.port_max = nat.U32Be(NFTA_NAT_REG_PROTO_MAX, protocol::kNoRegister);
  record.flags = nat.U32Be(NFTA_NAT_FLAGS);
  out.Append(record);
  return true;
}

}  // namespace fairlead::nft::expr
