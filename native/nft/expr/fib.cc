#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>

#include "nft/expr/codecs.h"
#include "wire/attr_reader.h"

namespace fairlead::nft::expr {

// fib: looks an address up in the routing table
//   NFTA_FIB_DREG    be32
//   NFTA_FIB_RESULT  be32, NFT_FIB_RESULT_*
//   NFTA_FIB_FLAGS   be32, NFTA_FIB_F_*

void Put(const expression::Fib& fib, MessageWriter& out) {
  out.PutU32Be(NFTA_FIB_DREG, fib.reg);
  out.PutU32Be(NFTA_FIB_RESULT, fib.result);
  out.PutU32Be(NFTA_FIB_FLAGS, fib.flags);
}

bool DecodeFib(Attributes attributes, RecordWriter& out) {
  const wire::AttrTable<NFTA_FIB_MAX> fib(attributes);
  expression::Fib record;
  record.reg = fib.U32Be(NFTA_FIB_DREG);
  record.result = fib.U32Be(NFTA_FIB_RESULT);
  record.flags = fib.U32Be(NFTA_FIB_FLAGS);
  out.Append(record);
  return true;
}

}  // namespace fairlead::nft::expr
