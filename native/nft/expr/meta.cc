#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>

#include "nft/expr/codecs.h"
#include "wire/attr_reader.h"

namespace fairlead::nft::expr {

// meta: loads a property of the packet, or sets it
//   NFTA_META_KEY   be32, NFT_META_*
//   NFTA_META_DREG  be32, to load
//   NFTA_META_SREG  be32, to set

void Put(const expression::MetaLoad& meta, MessageWriter& out) {
  out.PutU32Be(NFTA_META_KEY, meta.key);
  out.PutU32Be(NFTA_META_DREG, meta.reg);
}

void Put(const expression::MetaSet& meta, MessageWriter& out) {
  out.PutU32Be(NFTA_META_KEY, meta.key);
  out.PutU32Be(NFTA_META_SREG, meta.reg);
}

bool DecodeMeta(Attributes attributes, RecordWriter& out) {
  const wire::AttrTable<NFTA_META_MAX> meta(attributes);
  const std::uint32_t key = meta.U32Be(NFTA_META_KEY);
  if (meta.Has(NFTA_META_SREG)) {
    out.Append(expression::MetaSet{meta.U32Be(NFTA_META_SREG), key});
  } else {
    out.Append(expression::MetaLoad{meta.U32Be(NFTA_META_DREG), key});
  }
  return true;
}

}  // namespace fairlead::nft::expr
