#include "ipset/ipset_family.h"

#include <linux/netfilter/ipset/ip_set.h>

#include <cstring>

#include "protocol/attempt.h"
#include "protocol/dump_answer.h"
#include "wire/attr_reader.h"
#include "wire/nfnetlink.h"

namespace fairlead::ipset {

namespace {

using protocol::Checked;

/** Every kernel since 2.6.39 takes this version of the protocol. */
constexpr std::uint8_t kProtocol = IPSET_PROTOCOL_MIN;

/** Starts the message IPSET_CMD_* { IPSET_ATTR_PROTOCOL }. */
void Begin(int command, int flags, std::uint32_t sequence, wire::MessageWriter& out) noexcept {
  wire::BeginNfnetlink(out, wire::NfnetlinkType(NFNL_SUBSYS_IPSET, command), flags, NFPROTO_UNSPEC,
                       sequence);
  out.PutU8(IPSET_ATTR_PROTOCOL, kProtocol);
}

struct Encoder {
  /**
   * IPSET_CMD_DESTROY { IPSET_ATTR_SETNAME }. Some errors are not errnos but IPSET_ERR_*, from 4096
   * on. An empty name is refused, because the kernel would destroy all sets.
   */
  Checked operator()(const protocol::op::IpsetDestroy& op, std::uint32_t sequence,
                     wire::MessageWriter& out) const {
    if (op.set.empty() || op.set.size() >= IPSET_MAXNAMELEN) {
      return std::unexpected(protocol::BadRecord{op.kName, "set", "is not the name of a set"});
    }
    Begin(IPSET_CMD_DESTROY, NLM_F_ACK, sequence, out);
    out.PutString(IPSET_ATTR_SETNAME, op.set);
    out.EndMessage();
    return {};
  }
};

/**
 * Appends the record of a set:
 *
 *   IPSET_ATTR_SETNAME, IPSET_ATTR_TYPENAME, IPSET_ATTR_DATA { IPSET_ATTR_REFERENCES be32, ... }
 */
wire::Taken TakeHeader(const wire::Message& message, protocol::RecordWriter& out) {
  const auto attributes = wire::AttributesOf(message, sizeof(nfgenmsg));
  if (!attributes) return std::unexpected(attributes.error());
  const wire::AttrTable<IPSET_ATTR_CMD_MAX> set(*attributes);
  const wire::AttrTable<IPSET_ATTR_CREATE_MAX> data(set.Bytes(IPSET_ATTR_DATA));
  if (set.malformed() || data.malformed()) return std::unexpected("a set is malformed");
  protocol::reply::Ipset reply;
  reply.set = set.String(IPSET_ATTR_SETNAME);
  reply.type = set.String(IPSET_ATTR_TYPENAME);
  reply.references = data.U32Be(IPSET_ATTR_REFERENCES);
  out.Append(reply);
  return {};
}

void AppendPort(std::span<const std::uint8_t> member, ByteBuffer& ports) {
  const wire::AttrTable<IPSET_ATTR_PORT> fields(member);
  const auto port = fields.Bytes(IPSET_ATTR_PORT);
  if (port.size() >= 2) std::memcpy(ports.Extend(2), port.data(), 2);
}

/**
 * Appends the ports of a set. A set may take several messages:
 *
 *   IPSET_ATTR_ADT { IPSET_ATTR_DATA { IPSET_ATTR_PORT be16, ... }, ... }
 */
wire::Taken TakePorts(const wire::Message& message, protocol::RecordWriter& out) {
  const auto attributes = wire::AttributesOf(message, sizeof(nfgenmsg));
  if (!attributes) return std::unexpected(attributes.error());
  const wire::AttrTable<IPSET_ATTR_CMD_MAX> set(*attributes);
  wire::AttrReader members(set.Bytes(IPSET_ATTR_ADT));
  ByteBuffer ports;
  while (const auto member = members.Next()) {
    if (member->type == IPSET_ATTR_DATA) AppendPort(member->payload, ports);
  }
  if (set.malformed() || members.malformed()) return std::unexpected("a set is malformed");
  out.Append(protocol::reply::IpsetPorts{ports.bytes()});
  return {};
}

}  // namespace

IpsetFamily::IpsetFamily() noexcept : NetlinkFamily(wire::NfnetlinkOptions()) {}

std::expected<ByteBuffer, SystemError> IpsetFamily::RunOps(wire::Socket& socket,
                                                           std::span<const std::uint8_t> ops,
                                                           std::uint32_t first_op) {
  return protocol::AttemptMessages<Op>(ops, first_op, socket, Encoder());
}

std::expected<ByteBuffer, SystemError> IpsetFamily::RunRequest(
    wire::Socket& socket, std::span<const std::uint8_t> buffer) {
  const auto request = protocol::ReadRequest<Request>(buffer);
  if (!request) return protocol::RefuseDump(request.error());
  const auto* ports = std::get_if<protocol::request::IpsetPortsDump>(&*request);
  wire::MessageWriter message;
  Begin(IPSET_CMD_LIST, NLM_F_DUMP, socket.next_sequence(), message);
  if (ports == nullptr) {
    message.PutU32Be(IPSET_ATTR_FLAGS | NLA_F_NET_BYTEORDER, IPSET_FLAG_LIST_HEADER);
  } else {
    message.PutString(IPSET_ATTR_SETNAME, ports->set);
  }
  message.EndMessage();
  return protocol::AnswerDump(socket, message, ports == nullptr ? TakeHeader : TakePorts);
}

}  // namespace fairlead::ipset
