#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables_compat.h>

#include "nft/expr/codecs.h"
#include "wire/attr_reader.h"

namespace fairlead::nft::expr {

// target: a target of iptables (nft_compat)
//   NFTA_TARGET_NAME  string
//   NFTA_TARGET_REV   be32
//   NFTA_TARGET_INFO  its structure; the kernel dumps fields of its own in it, such as pointers, as
//                  zeroes (nft_extension_dump_info), so that rules compare

void Put(const expression::Target& target, MessageWriter& out) {
  out.PutString(NFTA_TARGET_NAME, target.name);
  out.PutU32Be(NFTA_TARGET_REV, target.revision);
  out.PutBytes(NFTA_TARGET_INFO, target.info);
}

bool DecodeTarget(Attributes attributes, RecordWriter& out) {
  const wire::AttrTable<NFTA_TARGET_MAX> target(attributes);
  if (!target.Has(NFTA_TARGET_NAME) || !target.Has(NFTA_TARGET_INFO)) return false;
  expression::Target record;
  record.name = target.String(NFTA_TARGET_NAME);
  record.revision = target.U32Be(NFTA_TARGET_REV);
  record.info = target.Bytes(NFTA_TARGET_INFO);
  out.Append(record);
  return true;
}

}  // namespace fairlead::nft::expr
