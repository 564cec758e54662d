// Data of rules and elements in nf_tables: a value or a verdict.
#ifndef FAIRLEAD_NFT_VERDICT_H_
#define FAIRLEAD_NFT_VERDICT_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "wire/message_writer.h"

namespace fairlead::nft {

struct Verdict {
  /** NF_ACCEPT, NF_DROP, NFT_GOTO, NFT_JUMP, NFT_RETURN, ... */
  std::int32_t code = 0;
  /** The chain of NFT_JUMP and NFT_GOTO, else empty. */
  std::string_view chain;
};

/** `attribute` { NFTA_DATA_VALUE bytes } */
void PutValue(wire::MessageWriter& out, std::uint16_t attribute,
              std::span<const std::uint8_t> value) noexcept;

/** `attribute` { NFTA_DATA_VERDICT { NFTA_VERDICT_CODE be32, NFTA_VERDICT_CHAIN string } } */
void PutVerdict(wire::MessageWriter& out, std::uint16_t attribute, const Verdict& verdict) noexcept;

/** The value in the payload of such an attribute; nothing if it has none. */
std::optional<std::span<const std::uint8_t>> ReadValue(
    std::span<const std::uint8_t> payload) noexcept;
/** The verdict in the payload of such an attribute; nothing if it has none. */
std::optional<Verdict> ReadVerdict(std::span<const std::uint8_t> payload) noexcept;

}  // namespace fairlead::nft

#endif  // FAIRLEAD_NFT_VERDICT_H_
