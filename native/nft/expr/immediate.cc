#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>

#include "nft/expr/codecs.h"
#include "nft/verdict.h"
#include "wire/attr_reader.h"

namespace fairlead::nft::expr {

// immediate: loads a constant; a verdict goes to the verdict register
//   NFTA_IMMEDIATE_DREG  be32
//   NFTA_IMMEDIATE_DATA  { NFTA_DATA_VALUE } or { NFTA_DATA_VERDICT }

void Put(const expression::ImmediateData& immediate, MessageWriter& out) {
  out.PutU32Be(NFTA_IMMEDIATE_DREG, immediate.reg);
  PutValue(out, NFTA_IMMEDIATE_DATA, immediate.data);
}

void Put(const expression::ImmediateVerdict& immediate, MessageWriter& out) {
  out.PutU32Be(NFTA_IMMEDIATE_DREG, NFT_REG_VERDICT);
  PutVerdict(out, NFTA_IMMEDIATE_DATA, {immediate.code, immediate.chain});
}

bool DecodeImmediate(Attributes attributes, RecordWriter& out) {
  const wire::AttrTable<NFTA_IMMEDIATE_MAX> immediate(attributes);
  const auto data = immediate.Bytes(NFTA_IMMEDIATE_DATA);
  if (const auto verdict = ReadVerdict(data)) {
    out.Append(expression::ImmediateVerdict{verdict->code, verdict->chain});
    return true;
  }
  const auto value = ReadValue(data);
  if (!value) return false;
  out.Append(expression::ImmediateData{immediate.U32Be(NFTA_IMMEDIATE_DREG), *value});
  return true;
}

}  // namespace fairlead::nft::expr
