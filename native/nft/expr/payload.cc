#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>

#include "nft/expr/codecs.h"
#include "wire/attr_reader.h"

namespace fairlead::nft::expr {

// payload: loads bytes of the packet
//   NFTA_PAYLOAD_DREG    be32
//   NFTA_PAYLOAD_BASE    be32, NFT_PAYLOAD_*_HEADER
//   NFTA_PAYLOAD_OFFSET  be32
//   NFTA_PAYLOAD_LEN     be32
//   NFTA_PAYLOAD_SREG    the form that writes to the packet; not expressed

void Put(const expression::Payload& payload, MessageWriter& out) {
  out.PutU32Be(NFTA_PAYLOAD_DREG, payload.reg);
  out.PutU32Be(NFTA_PAYLOAD_BASE, payload.base);
  out.PutU32Be(NFTA_PAYLOAD_OFFSET, payload.offset);
  out.PutU32Be(NFTA_PAYLOAD_LEN, payload.length);
}

bool DecodePayload(Attributes attributes, RecordWriter& out) {
  const wire::AttrTable<NFTA_PAYLOAD_MAX> payload(attributes);
  if (!payload.Has(NFTA_PAYLOAD_DREG)) return false;
  expression::Payload record;
  record.reg = payload.U32Be(NFTA_PAYLOAD_DREG);
  record.base = payload.U32Be(NFTA_PAYLOAD_BASE);
  record.offset = payload.U32Be(NFTA_PAYLOAD_OFFSET);
  record.length = payload.U32Be(NFTA_PAYLOAD_LEN);
  out.Append(record);
  return true;
}

}  // namespace fairlead::nft::expr
