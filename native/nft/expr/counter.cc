#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>

#include "nft/expr/codecs.h"

namespace fairlead::nft::expr {

// counter
//   NFTA_COUNTER_BYTES    be64 (dumps)
//   NFTA_COUNTER_PACKETS  be64 (dumps)
//
// The counts are state, not part of the rule: the record holds none, so that rules compare.

void Put(const expression::Counter&, MessageWriter&) {}

bool DecodeCounter(Attributes, RecordWriter& out) {
  out.Append(expression::Counter{});
  return true;
}

}  // namespace fairlead::nft::expr
