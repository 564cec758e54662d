#include "nft/verdict.h"

#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>

#include "wire/attr_reader.h"

namespace fairlead::nft {

void PutValue(wire::MessageWriter& out, std::uint16_t attribute,
              std::span<const std::uint8_t> value) noexcept {
  const auto data = out.BeginNest(attribute);
  out.PutBytes(NFTA_DATA_VALUE, value);
  out.EndNest(data);
}

void PutVerdict(wire::MessageWriter& out, std::uint16_t attribute,
                const Verdict& verdict) noexcept {
  const auto data = out.BeginNest(attribute);
  const auto nest = out.BeginNest(NFTA_DATA_VERDICT);
  out.PutU32Be(NFTA_VERDICT_CODE, static_cast<std::uint32_t>(verdict.code));
  if (!verdict.chain.empty()) out.PutString(NFTA_VERDICT_CHAIN, verdict.chain);
  out.EndNest(nest);
  out.EndNest(data);
}

std::optional<std::span<const std::uint8_t>> ReadValue(
    std::span<const std::uint8_t> payload) noexcept {
  const wire::AttrTable<NFTA_DATA_MAX> data(payload);
  if (data.malformed() || !data.Has(NFTA_DATA_VALUE)) return std::nullopt;
  return data.Bytes(NFTA_DATA_VALUE);
}

std::optional<Verdict> ReadVerdict(std::span<const std::uint8_t> payload) noexcept {
  const wire::AttrTable<NFTA_DATA_MAX> data(payload);
  const wire::AttrTable<NFTA_VERDICT_MAX> verdict(data.Bytes(NFTA_DATA_VERDICT));
  if (data.malformed() || verdict.malformed() || !verdict.Has(NFTA_VERDICT_CODE)) {
    return std::nullopt;
  }
  return Verdict{static_cast<std::int32_t>(verdict.U32Be(NFTA_VERDICT_CODE)),
                 verdict.String(NFTA_VERDICT_CHAIN)};
}

}  // namespace fairlead::nft
