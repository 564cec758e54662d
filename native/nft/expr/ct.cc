#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>

#include "nft/expr/codecs.h"
#include "wire/attr_reader.h"

namespace fairlead::nft::expr {

// ct: loads a property of the packet's connection
//   NFTA_CT_DREG       be32
//   NFTA_CT_KEY        be32, NFT_CT_*
//   NFTA_CT_DIRECTION  u8, IP_CT_DIR_*, only for keys that need it
//   NFTA_CT_SREG       the form that sets a property; not expressed

namespace {
constexpr std::uint8_t kNoDirection = 0xff;
}

void Put(const expression::CtLoad& ct, MessageWriter& out) {
  out.PutU32Be(NFTA_CT_DREG, ct.reg);
  out.PutU32Be(NFTA_CT_KEY, ct.key);
  if (ct.direction != kNoDirection) out.PutU8(NFTA_CT_DIRECTION, ct.direction);
}

bool DecodeCt(Attributes attributes, RecordWriter& out) {
  const wire::AttrTable<NFTA_CT_MAX> ct(attributes);
  if (!ct.Has(NFTA_CT_DREG)) return false;
  expression::CtLoad record;
  record.reg = ct.U32Be(NFTA_CT_DREG);
  record.key = ct.U32Be(NFTA_CT_KEY);
  record.direction = ct.U8(NFTA_CT_DIRECTION, kNoDirection);
  out.Append(record);
  return true;
}

}  // namespace fairlead::nft::expr
