#include "ipvs/ops.h"

#include <sys/socket.h>

#include <array>

#include "base/address_bytes.h"
#include "wire/byte_order.h"

namespace fairlead::ipvs {

namespace op = protocol::op;
using protocol::BadRecord;
using protocol::Checked;

namespace {

template <typename Op>
ServiceKey KeyOf(const Op& op) noexcept {
  return {op.family, op.protocol, op.address, op.port};
}

template <typename Op>
Checked CheckKey(const Op& op) noexcept {
  const std::size_t address_bytes = AddressBytes(op.family);
  if (address_bytes == 0) {
    return std::unexpected(BadRecord{Op::kName, "family", "is neither IPv4 nor IPv6"});
  }
  if (op.address.size() == address_bytes) return {};
  return std::unexpected(BadRecord{Op::kName, "address", "is not an address of the family"});
}

/** IPv4: a mask in network order. IPv6: the length as a number (ip_vs_add_service). */
void PutPrefixLength(wire::MessageWriter& out, std::uint8_t family, std::uint8_t bits) noexcept {
  if (family == AF_INET6) {
    out.PutU32Host(IPVS_SVC_ATTR_NETMASK, bits);
  } else {
    out.PutU32Be(IPVS_SVC_ATTR_NETMASK, bits == 0 ? 0 : ~std::uint32_t{0} << (32 - bits));
  }
}

template <typename Op>
Checked PutService(int command, const Op& op, Route to, wire::MessageWriter& out) {
  if (const auto checked = CheckKey(op); !checked) return checked;
  if (op.prefix_length > 8 * op.address.size()) {
    return std::unexpected(BadRecord{Op::kName, "prefixLength", "is longer than an address"});
  }
  if (op.scheduler.size() >= IP_VS_SCHEDNAME_MAXLEN) {
    return std::unexpected(BadRecord{Op::kName, "scheduler", "is longer than 15 bytes"});
  }
  BeginMessage(out, to, command, 0);
  const auto service = out.BeginNest(IPVS_CMD_ATTR_SERVICE);
  PutKey(out, KeyOf(op));
  out.PutString(IPVS_SVC_ATTR_SCHED_NAME, op.scheduler);
  std::array<std::uint8_t, sizeof(ip_vs_flags)> flags;
  wire::StoreHost(flags.data(), op.flags);
  wire::StoreHost(flags.data() + 4, ~std::uint32_t{0});
  out.PutBytes(IPVS_SVC_ATTR_FLAGS, flags);
  out.PutU32Host(IPVS_SVC_ATTR_TIMEOUT, op.timeout_seconds);
  PutPrefixLength(out, op.family, op.prefix_length);
  out.EndNest(service);
  out.EndMessage();
  return {};
}

template <typename Op>
void PutOnlyKey(const Op& op, wire::MessageWriter& out) noexcept {
  const auto service = out.BeginNest(IPVS_CMD_ATTR_SERVICE);
  PutKey(out, KeyOf(op));
  out.EndNest(service);
}

template <typename Op>
Checked PutDestination(int command, const Op& op, Route to, wire::MessageWriter& out) {
  if (const auto checked = CheckKey(op); !checked) return checked;
  const std::uint8_t family = op.destination.size() == 4 ? AF_INET : AF_INET6;
  if (op.destination.size() != AddressBytes(family)) {
    return std::unexpected(BadRecord{Op::kName, "destination", "is not an address"});
  }
  BeginMessage(out, to, command, 0);
  PutOnlyKey(op, out);
  const auto destination = out.BeginNest(IPVS_CMD_ATTR_DEST);
  PutAddress(out, IPVS_DEST_ATTR_ADDR, op.destination);
  out.PutU16Be(IPVS_DEST_ATTR_PORT, op.destination_port);
  out.PutU16Host(IPVS_DEST_ATTR_ADDR_FAMILY, family);
  if constexpr (requires { op.weight; }) {
    out.PutU32Host(IPVS_DEST_ATTR_FWD_METHOD, op.forwarding);
    out.PutU32Host(IPVS_DEST_ATTR_WEIGHT, op.weight);
    out.PutU32Host(IPVS_DEST_ATTR_U_THRESH, op.upper_threshold);
    out.PutU32Host(IPVS_DEST_ATTR_L_THRESH, op.lower_threshold);
  }
  out.EndNest(destination);
  out.EndMessage();
  return {};
}

Checked Encode(const op::VirtualServiceAdd& op, Route to, wire::MessageWriter& out) {
  return PutService(IPVS_CMD_NEW_SERVICE, op, to, out);
}
Checked Encode(const op::VirtualServiceSet& op, Route to, wire::MessageWriter& out) {
  return PutService(IPVS_CMD_SET_SERVICE, op, to, out);
}
Checked Encode(const op::VirtualServiceDelete& op, Route to, wire::MessageWriter& out) {
  if (const auto checked = CheckKey(op); !checked) return checked;
  BeginMessage(out, to, IPVS_CMD_DEL_SERVICE, 0);
  PutOnlyKey(op, out);
  out.EndMessage();
  return {};
}
Checked Encode(const op::DestinationAdd& op, Route to, wire::MessageWriter& out) {
  return PutDestination(IPVS_CMD_NEW_DEST, op, to, out);
}
Checked Encode(const op::DestinationSet& op, Route to, wire::MessageWriter& out) {
  return PutDestination(IPVS_CMD_SET_DEST, op, to, out);
}
Checked Encode(const op::DestinationDelete& op, Route to, wire::MessageWriter& out) {
  return PutDestination(IPVS_CMD_DEL_DEST, op, to, out);
}
Checked Encode(const op::IpvsTimeoutsSet& op, Route to, wire::MessageWriter& out) {
  BeginMessage(out, to, IPVS_CMD_SET_CONFIG, 0);
  out.PutU32Host(IPVS_CMD_ATTR_TIMEOUT_TCP, op.tcp_seconds);
  out.PutU32Host(IPVS_CMD_ATTR_TIMEOUT_TCP_FIN, op.tcp_fin_seconds);
  out.PutU32Host(IPVS_CMD_ATTR_TIMEOUT_UDP, op.udp_seconds);
  out.EndMessage();
  return {};
}

}  // namespace

Checked EncodeOp(const Op& op, Route to, wire::MessageWriter& out) {
  return std::visit([&](const auto& each) { return Encode(each, to, out); }, op);
}

}  // namespace fairlead::ipvs
