#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>

#include "nft/expr/codecs.h"
#include "wire/attr_reader.h"

namespace fairlead::nft::expr {

// lookup: finds the source register in a set; with a map, loads what the map holds
//   NFTA_LOOKUP_SET    string
//   NFTA_LOOKUP_SREG   be32
//   NFTA_LOOKUP_DREG   be32, maps only; 0 for a verdict map
//   NFTA_LOOKUP_FLAGS  be32, NFT_LOOKUP_F_INV

void Put(const expression::Lookup& lookup, MessageWriter& out) {
  out.PutString(NFTA_LOOKUP_SET, lookup.set);
  out.PutU32Be(NFTA_LOOKUP_SREG, lookup.source);
  if (lookup.destination != protocol::kNoRegister) {
    out.PutU32Be(NFTA_LOOKUP_DREG, lookup.destination);
  }
  if (lookup.flags != 0) out.PutU32Be(NFTA_LOOKUP_FLAGS, lookup.flags);
}

bool DecodeLookup(Attributes attributes, RecordWriter& out) {
  const wire::AttrTable<NFTA_LOOKUP_MAX> lookup(attributes);
  expression::Lookup record;
  record.set = lookup.String(NFTA_LOOKUP_SET);
  record.source = lookup.U32Be(NFTA_LOOKUP_SREG);
  record.destination = lookup.U32Be(NFTA_LOOKUP_DREG, protocol::kNoRegister);
  record.flags = lookup.U32Be(NFTA_LOOKUP_FLAGS);
  out.Append(record);
  return true;
}

}  // namespace fairlead::nft::expr
