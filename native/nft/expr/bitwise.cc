#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>

#include "nft/expr/codecs.h"
#include "nft/verdict.h"
#include "wire/attr_reader.h"

namespace fairlead::nft::expr {

// bitwise: destination = (source & mask) ^ xor
//   NFTA_BITWISE_SREG  be32
//   NFTA_BITWISE_DREG  be32
//   NFTA_BITWISE_LEN   be32
//   NFTA_BITWISE_MASK  { NFTA_DATA_VALUE }
//   NFTA_BITWISE_XOR   { NFTA_DATA_VALUE }
//   NFTA_BITWISE_OP    be32, absent or 0 for this form; shifts are not expressed

void Put(const expression::Bitwise& bitwise, MessageWriter& out) {
  out.PutU32Be(NFTA_BITWISE_SREG, bitwise.source);
  out.PutU32Be(NFTA_BITWISE_DREG, bitwise.destination);
  out.PutU32Be(NFTA_BITWISE_LEN, bitwise.length);
  PutValue(out, NFTA_BITWISE_MASK, bitwise.mask);
  PutValue(out, NFTA_BITWISE_XOR, bitwise.flip);
}

bool DecodeBitwise(Attributes attributes, RecordWriter& out) {
  const wire::AttrTable<NFTA_BITWISE_MAX> bitwise(attributes);
  const auto mask = ReadValue(bitwise.Bytes(NFTA_BITWISE_MASK));
  const auto flip = ReadValue(bitwise.Bytes(NFTA_BITWISE_XOR));
  if (!mask || !flip || bitwise.U32Be(NFTA_BITWISE_OP) != NFT_BITWISE_BOOL) return false;
  expression::Bitwise record;
  record.source = bitwise.U32Be(NFTA_BITWISE_SREG);
  record.destination = bitwise.U32Be(NFTA_BITWISE_DREG);
  record.length = bitwise.U32Be(NFTA_BITWISE_LEN);
  record.mask = *mask;
  record.flip = *flip;
  out.Append(record);
  return true;
}

}  // namespace fairlead::nft::expr
