#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>

#include "nft/expr/codecs.h"
#include "nft/verdict.h"
#include "wire/attr_reader.h"

namespace fairlead::nft::expr {

// cmp: goes on with the next expression only when the register compares so with the data
//   NFTA_CMP_SREG  be32
//   NFTA_CMP_OP    be32, NFT_CMP_*
//   NFTA_CMP_DATA  { NFTA_DATA_VALUE }

void Put(const expression::Cmp& cmp, MessageWriter& out) {
  out.PutU32Be(NFTA_CMP_SREG, cmp.reg);
  out.PutU32Be(NFTA_CMP_OP, cmp.operation);
  PutValue(out, NFTA_CMP_DATA, cmp.data);
}

bool DecodeCmp(Attributes attributes, RecordWriter& out) {
  const wire::AttrTable<NFTA_CMP_MAX> cmp(attributes);
  const auto data = ReadValue(cmp.Bytes(NFTA_CMP_DATA));
  if (!data) return false;
  expression::Cmp record;
  record.reg = cmp.U32Be(NFTA_CMP_SREG);
  record.operation = cmp.U32Be(NFTA_CMP_OP);
  record.data = *data;
  out.Append(record);
  return true;
}

}  // namespace fairlead::nft::expr
