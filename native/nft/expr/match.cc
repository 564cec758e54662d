#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables_compat.h>

#include "nft/expr/codecs.h"
#include "wire/attr_reader.h"

namespace fairlead::nft::expr {

// match: a match of iptables (nft_compat)
//   NFTA_MATCH_NAME  string
//   NFTA_MATCH_REV   be32
//   NFTA_MATCH_INFO  its structure; the kernel dumps fields of its own in it, such as pointers, as
//                  zeroes (nft_extension_dump_info), so that rules compare

void Put(const expression::Match& match, MessageWriter& out) {
  out.PutString(NFTA_MATCH_NAME, match.name);
  out.PutU32Be(NFTA_MATCH_REV, match.revision);
  out.PutBytes(NFTA_MATCH_INFO, match.info);
}

bool DecodeMatch(Attributes attributes, RecordWriter& out) {
  const wire::AttrTable<NFTA_MATCH_MAX> match(attributes);
  if (!match.Has(NFTA_MATCH_NAME) || !match.Has(NFTA_MATCH_INFO)) return false;
  expression::Match record;
  record.name = match.String(NFTA_MATCH_NAME);
  record.revision = match.U32Be(NFTA_MATCH_REV);
  record.info = match.Bytes(NFTA_MATCH_INFO);
  out.Append(record);
  return true;
}

}  // namespace fairlead::nft::expr
