#include "ipset/message.h"

#include <linux/netfilter.h>
#include <linux/netfilter/ipset/ip_set.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "base/byte_buffer.h"

namespace fairlead::ipset {

using Taken = std::expected<void, std::string>;

namespace {

/** Every kernel since 2.6.39 speaks it. */
constexpr std::uint8_t kProtocol = IPSET_PROTOCOL_MIN;

constexpr std::uint16_t TypeOf(int command) noexcept {
  return static_cast<std::uint16_t>(NFNL_SUBSYS_IPSET << 8 | command);
}

void Begin(int command, int flags, std::uint32_t sequence, wire::MessageWriter& out) noexcept {
  out.BeginMessage(TypeOf(command), static_cast<std::uint16_t>(NLM_F_REQUEST | flags), sequence);
  const std::array<std::uint8_t, sizeof(nfgenmsg)> header = {NFPROTO_UNSPEC, NFNETLINK_V0};
  out.PutFamilyHeader(header);
  out.PutU8(IPSET_ATTR_PROTOCOL, kProtocol);
}

std::expected<std::span<const std::uint8_t>, std::string> AttributesOf(
    const wire::Message& message) {
  if (message.payload.size() < sizeof(nfgenmsg)) {
    return std::unexpected("the kernel sent a short message");
  }
  return message.payload.subspan(sizeof(nfgenmsg));
}

void AppendPort(std::span<const std::uint8_t> member, ByteBuffer& ports) {
  const wire::AttrTable<IPSET_ATTR_PORT> fields(member);
  const auto port = fields.Bytes(IPSET_ATTR_PORT);
  if (port.size() >= 2) std::memcpy(ports.Extend(2), port.data(), 2);
}

}  // namespace

std::expected<void, protocol::DecodeError> EncodeDestroy(const protocol::op::IpsetDestroy& op,
                                                         std::uint32_t sequence,
                                                         wire::MessageWriter& out) {
  // Without a name the kernel destroys all sets.
  if (op.set.empty() || op.set.size() >= IPSET_MAXNAMELEN) {
    return std::unexpected(protocol::DecodeError{op.kName, "set", "is no name of a set"});
  }
  Begin(IPSET_CMD_DESTROY, NLM_F_ACK, sequence, out);
  out.PutString(IPSET_ATTR_SETNAME, op.set);
  out.EndMessage();
  return {};
}

wire::MessageWriter EncodeListHeaders(std::uint32_t sequence) {
  wire::MessageWriter out;
  Begin(IPSET_CMD_LIST, NLM_F_DUMP, sequence, out);
  out.PutU32Be(IPSET_ATTR_FLAGS | NLA_F_NET_BYTEORDER, IPSET_FLAG_LIST_HEADER);
  out.EndMessage();
  return out;
}

wire::MessageWriter EncodeListMembers(std::string_view set, std::uint32_t sequence) {
  wire::MessageWriter out;
  Begin(IPSET_CMD_LIST, NLM_F_DUMP, sequence, out);
  out.PutString(IPSET_ATTR_SETNAME, set);
  out.EndMessage();
  return out;
}

Taken TakeHeader(const wire::Message& message, protocol::RecordWriter& out) {
  const auto attributes = AttributesOf(message);
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

Taken TakePorts(const wire::Message& message, protocol::RecordWriter& out) {
  const auto attributes = AttributesOf(message);
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

}  // namespace fairlead::ipset
