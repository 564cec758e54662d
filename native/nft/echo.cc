#include "nft/echo.h"

#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>

#include <utility>

#include "nft/expr/expressions.h"
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
    if (index >= batch_.origins().size() || message->payload.size() < sizeof(nfgenmsg)) continue;
    const std::uint32_t op = batch_.origins()[index].op;
    const auto attributes = message->payload.subspan(sizeof(nfgenmsg));
    for (const int type : {NFT_MSG_NEWRULE, NFT_MSG_DELRULE}) {
      if (message->type == MessageType(type)) TakeRule(type, op, attributes);
    }
  }
}

void EchoCollector::TakeRule(int type, std::uint32_t op, std::span<const std::uint8_t> attributes) {
  const wire::AttrTable<NFTA_RULE_MAX> rule(attributes);
  if (rule.malformed() || !rule.Has(NFTA_RULE_HANDLE)) return;
  if (type == NFT_MSG_NEWRULE) {
    handles_.push_back({op, rule.U64Be(NFTA_RULE_HANDLE)});
    return;
  }
  const auto expressions = rule.Bytes(NFTA_RULE_EXPRESSIONS);
  Gone gone{op, expr::Packets(expressions), {}};
  if (expr::Decode(expressions, gone.expressions)) gone_.push_back(std::move(gone));
}

void EchoCollector::Write(protocol::RecordWriter& out) const {
  for (const protocol::reply::RuleHandle& handle : handles_) out.Append(handle);
  for (const Gone& gone : gone_) {
    out.Append(protocol::reply::RuleGone{gone.op, gone.packets, gone.expressions.bytes()});
  }
}

}  // namespace fairlead::nft
