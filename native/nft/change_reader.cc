#include "nft/change_reader.h"

#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>

#include <algorithm>

#include "nft/batch_writer.h"

namespace fairlead::nft {

namespace {

// The attribute with the table's name has this number for every kind of object: NFTA_TABLE_NAME,
// NFTA_CHAIN_TABLE, NFTA_RULE_TABLE, NFTA_SET_TABLE, NFTA_SET_ELEM_LIST_TABLE, NFTA_OBJ_TABLE,
// NFTA_FLOWTABLE_TABLE.
constexpr std::size_t kTableOfObject = 1;

/** The attribute that names the chain, for a message about a chain or a rule; 0 = there is none. */
std::size_t ChainAttribute(int type) noexcept {
  if (type == MessageType(NFT_MSG_NEWCHAIN) || type == MessageType(NFT_MSG_DELCHAIN)) {
    return NFTA_CHAIN_NAME;
  }
  const bool is_rule = type == MessageType(NFT_MSG_NEWRULE) || type == MessageType(NFT_MSG_DELRULE);
  return is_rule ? NFTA_RULE_CHAIN : 0;
}

}  // namespace

void ChangeReader::Take(std::span<const std::uint8_t> datagram, std::uint32_t own_port) {
  wire::MessageReader reader(datagram);
  while (const auto message = reader.Next()) {
    const bool is_own = own_port != 0 && message->port == own_port;
    if (is_own || message->payload.size() < sizeof(nfgenmsg)) continue;
    if (message->type == MessageType(NFT_MSG_NEWGEN)) {
      if (touched_) TakeGeneration(message->payload.subspan(sizeof(nfgenmsg)));
    } else if (!touched_) {
      touched_ = IsWatched(*message);
    }
  }
}

void ChangeReader::TakeOverrun() noexcept {
  committer_ = {};
  touched_ = false;
  changed_ = true;
}

bool ChangeReader::IsWatched(const wire::Message& message) const noexcept {
  const std::uint8_t family = message.payload[0];
  const wire::AttrTable<NFTA_CHAIN_NAME> object(message.payload.subspan(sizeof(nfgenmsg)));
  const std::string_view name = object.String(kTableOfObject);
  const std::string_view chain = object.String(ChainAttribute(message.type));
  return std::any_of(tables_.begin(), tables_.end(), [&](const WatchedTable& table) {
    return table.family == family && table.name == name && IsOfChain(table, chain);
  });
}

bool ChangeReader::IsOfChain(const WatchedTable& table, std::string_view chain) noexcept {
  const auto& prefixes = table.chains;
  return chain.empty() || prefixes.empty() ||
         std::any_of(prefixes.begin(), prefixes.end(),
                     [&](const std::string& prefix) { return chain.starts_with(prefix); });
}

void ChangeReader::TakeGeneration(std::span<const std::uint8_t> attributes) {
  const wire::AttrTable<NFTA_GEN_MAX> generation(attributes);
  committer_ = {std::string(generation.String(NFTA_GEN_PROC_NAME)),
                generation.U32Be(NFTA_GEN_PROC_PID)};
  touched_ = false;
  changed_ = true;
}

}  // namespace fairlead::nft
