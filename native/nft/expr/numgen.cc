#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>

#include "nft/expr/codecs.h"
#include "wire/attr_reader.h"

namespace fairlead::nft::expr {

// numgen: loads the next number, random or incremental, in offset .. offset + modulus - 1
//   NFTA_NG_DREG     be32
//   NFTA_NG_MODULUS  be32
//   NFTA_NG_TYPE     be32, NFT_NG_*
//   NFTA_NG_OFFSET   be32

void Put(const expression::Numgen& numgen, MessageWriter& out) {
  out.PutU32Be(NFTA_NG_DREG, numgen.reg);
  out.PutU32Be(NFTA_NG_MODULUS, numgen.modulus);
  out.PutU32Be(NFTA_NG_TYPE, numgen.type);
  out.PutU32Be(NFTA_NG_OFFSET, numgen.offset);
}

bool DecodeNumgen(Attributes attributes, RecordWriter& out) {
  const wire::AttrTable<NFTA_NG_MAX> numgen(attributes);
  expression::Numgen record;
  record.reg = numgen.U32Be(NFTA_NG_DREG);
  record.type = numgen.U32Be(NFTA_NG_TYPE);
  record.modulus = numgen.U32Be(NFTA_NG_MODULUS);
  record.offset = numgen.U32Be(NFTA_NG_OFFSET);
  out.Append(record);
  return true;
}

}  // namespace fairlead::nft::expr
