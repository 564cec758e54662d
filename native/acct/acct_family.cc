#include "acct/acct_family.h"

#include <linux/netfilter/nfnetlink_acct.h>

#include "protocol/attempt.h"
#include "protocol/dump_answer.h"
#include "wire/attr_reader.h"
#include "wire/nfnetlink.h"

namespace fairlead::acct {

namespace {

using protocol::Checked;

void Begin(int command, int flags, std::uint32_t sequence, wire::MessageWriter& out) noexcept {
  wire::BeginNfnetlink(out, wire::NfnetlinkType(NFNL_SUBSYS_ACCT, command), flags, NFPROTO_UNSPEC,
                       sequence);
}

/** Refuses an empty name, with which the kernel would delete all counters. */
template <typename R>
Checked EncodeNamed(const R& op, int command, int flags, std::uint32_t sequence,
                    wire::MessageWriter& out) {
  if (op.name.empty() || op.name.size() >= NFACCT_NAME_MAX) {
    return std::unexpected(protocol::BadRecord{R::kName, "name", "is not the name of a counter"});
  }
  Begin(command, flags | NLM_F_ACK, sequence, out);
  out.PutString(NFACCT_NAME, op.name);
  out.EndMessage();
  return {};
}

struct Encoder {
  /** NFNL_MSG_ACCT_NEW { NFACCT_NAME }. EBUSY when the counter exists. */
  Checked operator()(const protocol::op::AcctAdd& op, std::uint32_t sequence,
                     wire::MessageWriter& out) const {
    return EncodeNamed(op, NFNL_MSG_ACCT_NEW, NLM_F_CREATE, sequence, out);
  }
  /** NFNL_MSG_ACCT_DEL { NFACCT_NAME } */
  Checked operator()(const protocol::op::AcctDelete& op, std::uint32_t sequence,
                     wire::MessageWriter& out) const {
    return EncodeNamed(op, NFNL_MSG_ACCT_DEL, 0, sequence, out);
  }
};

/**
 * Appends the record of a counter:
 *
 *   NFACCT_NAME, NFACCT_PKTS be64, NFACCT_BYTES be64, NFACCT_USE be32: 1 + the rules that use it
 */
wire::Taken TakeCounter(const wire::Message& message, protocol::RecordWriter& out) {
  const auto attributes = wire::AttributesOf(message, sizeof(nfgenmsg));
  if (!attributes) return std::unexpected(attributes.error());
  const wire::AttrTable<NFACCT_MAX> fields(*attributes);
  if (fields.malformed()) return std::unexpected("a counter is malformed");
  protocol::reply::Acct reply;
  reply.name = fields.String(NFACCT_NAME);
  reply.packets = fields.U64Be(NFACCT_PKTS);
  reply.bytes = fields.U64Be(NFACCT_BYTES);
  const std::uint32_t uses = fields.U32Be(NFACCT_USE);
  reply.references = uses > 0 ? uses - 1 : 0;
  out.Append(reply);
  return {};
}

}  // namespace

AcctFamily::AcctFamily() noexcept : NetlinkFamily(wire::NfnetlinkOptions()) {}

std::expected<ByteBuffer, SystemError> AcctFamily::RunOps(wire::Socket& socket,
                                                          std::span<const std::uint8_t> ops,
                                                          std::uint32_t first_op) {
  return protocol::AttemptMessages<Op>(ops, first_op, socket, Encoder());
}

std::expected<ByteBuffer, SystemError> AcctFamily::RunRequest(
    wire::Socket& socket, std::span<const std::uint8_t> buffer) {
  const auto request = protocol::ReadRequest<Request>(buffer);
  if (!request) return protocol::RefuseDump(request.error());
  wire::MessageWriter message;
  Begin(NFNL_MSG_ACCT_GET, NLM_F_DUMP, socket.next_sequence(), message);
  message.EndMessage();
  return protocol::AnswerDump(socket, message, TakeCounter);
}

}  // namespace fairlead::acct
