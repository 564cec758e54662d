#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>

#include "nft/expr/codecs.h"
#include "nft/verdict.h"
#include "wire/attr_reader.h"

namespace fairlead::nft::expr {

// range: goes on with the next expression only when from <= register <= to, or only when not
//   NFTA_RANGE_SREG       be32
//   NFTA_RANGE_OP         be32, NFT_RANGE_*
//   NFTA_RANGE_FROM_DATA  { NFTA_DATA_VALUE }
//   NFTA_RANGE_TO_DATA    { NFTA_DATA_VALUE }

void Put(const expression::Range& range, MessageWriter& out) {
  out.PutU32Be(NFTA_RANGE_SREG, range.reg);
  out.PutU32Be(NFTA_RANGE_OP, range.operation);
  PutValue(out, NFTA_RANGE_FROM_DATA, range.from);
  PutValue(out, NFTA_RANGE_TO_DATA, range.to);
}

bool DecodeRange(Attributes attributes, RecordWriter& out) {
  const wire::AttrTable<NFTA_RANGE_MAX> range(attributes);
  const auto from = ReadValue(range.Bytes(NFTA_RANGE_FROM_DATA));
  const auto to = ReadValue(range.Bytes(NFTA_RANGE_TO_DATA));
  if (!from || !to) return false;
  expression::Range record;
  record.reg = range.U32Be(NFTA_RANGE_SREG);
  record.operation = range.U32Be(NFTA_RANGE_OP);
  record.from = *from;
  record.to = *to;
  out.Append(record);
  return true;
}

}  // namespace fairlead::nft::expr
