#include "nft/echo.h"

#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>

#include "wire/attr_reader.h"

namespace fairlead::nft {

namespace {

/**
 * Bytes that an echo takes in the receive buffer. The kernel puts echoes into buffers of one page,
 * its overhead included (nft_commit_notify). Our rules take up to 1 KiB, so a page holds three.
 */
constexpr std::size_t kBytesPerEcho = 2048;

}  // namespace

std::size_t EchoBytes(std::uint32_t echoes) noexcept { return kBytesPerEcho * echoes; }

void EchoCollector::Take(std::span<const std::uint8_t> datagram) {
  wire::MessageReader reader(datagram);
  while (const auto message = reader.Next()) {
    const std::uint32_t index = message->sequence - first_;
    if (message->type != MessageType(NFT_MSG_NEWRULE) || index >= batch_.origins().size() ||
        message->payload.size() < sizeof(nfgenmsg)) {
      continue;
    }
    const wire::AttrTable<NFTA_RULE_MAX> rule(message->payload.subspan(sizeof(nfgenmsg)));
    if (rule.malformed() || !rule.Has(NFTA_RULE_HANDLE)) continue;
    handles_.push_back({batch_.origins()[index].op, rule.U64Be(NFTA_RULE_HANDLE)});
  }
}

void EchoCollector::Write(protocol::RecordWriter& out) const {
  for (const protocol::reply::RuleHandle& handle : handles_) out.Append(handle);
}

}  // namespace fairlead::nft
