#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>

#include "nft/expr/codecs.h"
#include "wire/attr_reader.h"

namespace fairlead::nft::expr {

// masq: source NAT to the address of the outgoing interface
//   NFTA_MASQ_FLAGS          be32, NF_NAT_RANGE_*
//   NFTA_MASQ_REG_PROTO_MIN  a range of ports; not expressed

void Put(const expression::Masquerade& masquerade, MessageWriter& out) {
  if (masquerade.flags != 0) out.PutU32Be(NFTA_MASQ_FLAGS, masquerade.flags);
}

bool DecodeMasquerade(Attributes attributes, RecordWriter& out) {
  const wire::AttrTable<NFTA_MASQ_MAX> masquerade(attributes);
  if (masquerade.Has(NFTA_MASQ_REG_PROTO_MIN)) return false;
  out.Append(expression::Masquerade{masquerade.U32Be(NFTA_MASQ_FLAGS)});
  return true;
}

}  // namespace fairlead::nft::expr
