#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>

#include "nft/expr/codecs.h"
#include "wire/attr_reader.h"

namespace fairlead::nft::expr {

// dynset: adds, updates or deletes an element from the packet path
//   NFTA_DYNSET_SET_NAME   string
//   NFTA_DYNSET_OP         be32, NFT_DYNSET_OP_*
//   NFTA_DYNSET_SREG_KEY   be32
//   NFTA_DYNSET_SREG_DATA  be32, maps only
//   NFTA_DYNSET_TIMEOUT    be64, milliseconds
//   NFTA_DYNSET_FLAGS      be32; inversion and expressions of elements are not expressed

void Put(const expression::Dynset& dynset, MessageWriter& out) {
  out.PutString(NFTA_DYNSET_SET_NAME, dynset.set);
  out.PutU32Be(NFTA_DYNSET_OP, dynset.operation);
  out.PutU32Be(NFTA_DYNSET_SREG_KEY, dynset.key);
  if (dynset.data != protocol::kNoRegister) out.PutU32Be(NFTA_DYNSET_SREG_DATA, dynset.data);
  if (dynset.timeout_ms != 0) out.PutU64Be(NFTA_DYNSET_TIMEOUT, dynset.timeout_ms);
}

bool DecodeDynset(Attributes attributes, RecordWriter& out) {
  const wire::AttrTable<NFTA_DYNSET_MAX> dynset(attributes);
  if (dynset.Has(NFTA_DYNSET_EXPR) || dynset.Has(NFTA_DYNSET_EXPRESSIONS) ||
      dynset.U32Be(NFTA_DYNSET_FLAGS) != 0) {
    return false;
  }
  expression::Dynset record;
  record.set = dynset.String(NFTA_DYNSET_SET_NAME);
  record.operation = dynset.U32Be(NFTA_DYNSET_OP);
  record.key = dynset.U32Be(NFTA_DYNSET_SREG_KEY);
  record.data = dynset.U32Be(NFTA_DYNSET_SREG_DATA, protocol::kNoRegister);
  record.timeout_ms = dynset.U64Be(NFTA_DYNSET_TIMEOUT);
  out.Append(record);
  return true;
}

}  // namespace fairlead::nft::expr
