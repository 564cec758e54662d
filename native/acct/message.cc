#include "acct/message.h"

#include <linux/netfilter.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_acct.h>
#include <linux/netlink.h>

#include <array>

namespace fairlead::acct {

namespace {

void Begin(int command, int flags, std::uint32_t sequence, wire::MessageWriter& out) noexcept {
  out.BeginMessage(static_cast<std::uint16_t>(NFNL_SUBSYS_ACCT << 8 | command),
                   static_cast<std::uint16_t>(NLM_F_REQUEST | flags), sequence);
  const std::array<std::uint8_t, sizeof(nfgenmsg)> header = {NFPROTO_UNSPEC, NFNETLINK_V0};
  out.PutFamilyHeader(header);
}

/** Without a name the kernel deletes all counters. */
template <typename Op>
Encoded Encode(const Op& op, int command, int flags, std::uint32_t sequence,
               wire::MessageWriter& out) {
  if (op.name.empty() || op.name.size() >= NFACCT_NAME_MAX) {
    return std::unexpected(protocol::DecodeError{op.kName, "name", "is no name of a counter"});
  }
  Begin(command, flags | NLM_F_ACK, sequence, out);
  out.PutString(NFACCT_NAME, op.name);
  out.EndMessage();
  return {};
}

}  // namespace

Encoded EncodeAdd(const protocol::op::AcctAdd& op, std::uint32_t sequence,
                  wire::MessageWriter& out) {
  return Encode(op, NFNL_MSG_ACCT_NEW, NLM_F_CREATE, sequence, out);
}

Encoded EncodeDelete(const protocol::op::AcctDelete& op, std::uint32_t sequence,
                     wire::MessageWriter& out) {
  return Encode(op, NFNL_MSG_ACCT_DEL, 0, sequence, out);
}

wire::MessageWriter EncodeList(std::uint32_t sequence) {
  wire::MessageWriter out;
  Begin(NFNL_MSG_ACCT_GET, NLM_F_DUMP, sequence, out);
  out.EndMessage();
  return out;
}

std::expected<void, std::string> TakeCounter(const wire::Message& message,
                                             protocol::RecordWriter& out) {
  if (message.payload.size() < sizeof(nfgenmsg)) {
    return std::unexpected("the kernel sent a short message");
  }
  const wire::AttrTable<NFACCT_MAX> fields(message.payload.subspan(sizeof(nfgenmsg)));
  if (fields.malformed()) return std::unexpected("a counter is malformed");
  protocol::reply::Acct reply;
  reply.name = fields.String(NFACCT_NAME);
  reply.packets = wire::ReadU64Be(fields.Bytes(NFACCT_PKTS), 0);
  reply.bytes = wire::ReadU64Be(fields.Bytes(NFACCT_BYTES), 0);
  const std::uint32_t uses = fields.U32Be(NFACCT_USE);
  reply.references = uses > 0 ? uses - 1 : 0;
  out.Append(reply);
  return {};
}

}  // namespace fairlead::acct
