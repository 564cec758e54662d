#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>

#include "nft/expr/codecs.h"
#include "wire/attr_reader.h"

namespace fairlead::nft::expr {

// reject: drops the packet and answers with an error
//   NFTA_REJECT_TYPE       be32, NFT_REJECT_*
//   NFTA_REJECT_ICMP_CODE  u8, not with a TCP reset

void Put(const expression::Reject& reject, MessageWriter& out) {
  out.PutU32Be(NFTA_REJECT_TYPE, reject.type);
  if (reject.type != NFT_REJECT_TCP_RST) out.PutU8(NFTA_REJECT_ICMP_CODE, reject.icmp_code);
}

bool DecodeReject(Attributes attributes, RecordWriter& out) {
  const wire::AttrTable<NFTA_REJECT_MAX> reject(attributes);
  expression::Reject record;
  record.type = reject.U32Be(NFTA_REJECT_TYPE);
  record.icmp_code = reject.U8(NFTA_REJECT_ICMP_CODE);
  out.Append(record);
  return true;
}

}  // namespace fairlead::nft::expr
