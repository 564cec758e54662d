#include "nft/generation.h"

#include <linux/netfilter/nf_tables.h>

#include "wire/attr_reader.h"

namespace fairlead::nft {

DecodeResult DecodeGeneration(std::span<const std::uint8_t> attributes,
                              protocol::RecordWriter& out) {
  const wire::AttrTable<NFTA_GEN_MAX> generation(attributes);
  if (generation.malformed() || !generation.Has(NFTA_GEN_ID)) {
    return Malformed("generation", "has no id");
  }
  out.Append(protocol::reply::Generation{generation.U32Be(NFTA_GEN_ID)});
  return {};
}

}  // namespace fairlead::nft
