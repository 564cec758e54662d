#include "nftrace/event.h"

#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>

#include "nft/verdict.h"
#include "protocol/ops.gen.h"
#include "wire/nfnetlink.h"

namespace fairlead::nftrace {

// NFT_MSG_TRACE; nfgenmsg has the family of the table.
//   NFTA_TRACE_TABLE             string
//   NFTA_TRACE_CHAIN             string
//   NFTA_TRACE_RULE_HANDLE       be64
//   NFTA_TRACE_TYPE              be32   NFT_TRACETYPE_*
//   NFTA_TRACE_VERDICT           nest   NFTA_VERDICT_*, without the NFTA_DATA_VERDICT around it
//   NFTA_TRACE_ID                be32
//   NFTA_TRACE_NETWORK_HEADER    binary, at most 40 bytes
//   NFTA_TRACE_TRANSPORT_HEADER  binary, at most 20 bytes
//   NFTA_TRACE_IIF, _OIF         be32
//   NFTA_TRACE_MARK              be32
//   NFTA_TRACE_NFPROTO           be32
//   NFTA_TRACE_POLICY            be32

wire::Taken TakeEvent(const wire::Message& message, protocol::RecordWriter& out) {
  if (message.type != wire::NfnetlinkType(NFNL_SUBSYS_NFTABLES, NFT_MSG_TRACE)) return {};
  const auto attributes = wire::AttributesOf(message, sizeof(nfgenmsg));
  if (!attributes) return std::unexpected(attributes.error());
  const wire::AttrTable<NFTA_TRACE_MAX> event(*attributes);
  const wire::AttrTable<NFTA_VERDICT_MAX> verdict(event.Bytes(NFTA_TRACE_VERDICT));
  if (event.malformed() || verdict.malformed()) {
    return std::unexpected("the event of a traced packet is malformed");
  }
  protocol::reply::NftraceEvent reply;
  reply.id = event.U32Be(NFTA_TRACE_ID);
  reply.type = event.U32Be(NFTA_TRACE_TYPE);
  reply.family = message.payload[0];
  reply.packet_family = static_cast<std::uint8_t>(event.U32Be(NFTA_TRACE_NFPROTO));
  reply.table = event.String(NFTA_TRACE_TABLE);
  reply.chain = event.String(NFTA_TRACE_CHAIN);
  reply.rule = event.U64Be(NFTA_TRACE_RULE_HANDLE);
  reply.verdict = static_cast<std::int32_t>(verdict.U32Be(NFTA_VERDICT_CODE));
  reply.target = verdict.String(NFTA_VERDICT_CHAIN);
  reply.policy = event.U32Be(NFTA_TRACE_POLICY, protocol::kUnknownIndex);
  reply.mark = event.U32Be(NFTA_TRACE_MARK);
  reply.input_interface = event.U32Be(NFTA_TRACE_IIF);
  reply.output_interface = event.U32Be(NFTA_TRACE_OIF);
  reply.network_header = event.Bytes(NFTA_TRACE_NETWORK_HEADER);
  reply.transport_header = event.Bytes(NFTA_TRACE_TRANSPORT_HEADER);
  out.Append(reply);
  return {};
}

}  // namespace fairlead::nftrace
