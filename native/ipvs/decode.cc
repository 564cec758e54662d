#include "ipvs/decode.h"

#include <sys/socket.h>

#include <bit>

#include "base/address_bytes.h"
#include "wire/attr_reader.h"
#include "wire/byte_order.h"

namespace fairlead::ipvs {

namespace reply = protocol::reply;

namespace {

using Bytes = std::span<const std::uint8_t>;

/** The length of an IPv4 mask that is not a prefix, see `virtualService`. */
constexpr std::uint8_t kNoPrefix = 0xff;

/** The bytes of a nf_inet_addr (16 bytes) that the family uses. Empty when it is shorter. */
Bytes AddressOf(std::uint8_t family, Bytes attribute) noexcept {
  const std::size_t length = AddressBytes(family);
  return attribute.size() < length ? Bytes{} : attribute.first(length);
}

std::uint8_t PrefixLengthOf(std::uint8_t family, Bytes netmask) noexcept {
  if (family == AF_INET6) return static_cast<std::uint8_t>(wire::ReadU32Host(netmask, 0));
  const std::uint32_t mask = wire::ReadU32Be(netmask, 0);
  const int ones = std::countl_one(mask);
  return std::popcount(mask) == ones ? static_cast<std::uint8_t>(ones) : kNoPrefix;
}

template <typename Reply>
void TakeStatistics(Bytes attributes, Reply& out) noexcept {
  const wire::AttrTable<IPVS_STATS_ATTR_MAX> statistics(attributes);
  out.connections = statistics.U64Host(IPVS_STATS_ATTR_CONNS);
  out.in_packets = statistics.U64Host(IPVS_STATS_ATTR_INPKTS);
  out.out_packets = statistics.U64Host(IPVS_STATS_ATTR_OUTPKTS);
  out.in_bytes = statistics.U64Host(IPVS_STATS_ATTR_INBYTES);
  out.out_bytes = statistics.U64Host(IPVS_STATS_ATTR_OUTBYTES);
}

}  // namespace

std::expected<reply::VirtualService, std::string> DecodeService(Bytes attributes) {
  const wire::AttrTable<IPVS_CMD_ATTR_MAX> command(attributes);
  const wire::AttrTable<IPVS_SVC_ATTR_MAX> service(command.Bytes(IPVS_CMD_ATTR_SERVICE));
  reply::VirtualService out;
  out.family = static_cast<std::uint8_t>(service.U16Host(IPVS_SVC_ATTR_AF));
  out.firewall_mark = service.U32Host(IPVS_SVC_ATTR_FWMARK);
  if (out.firewall_mark == 0) {
    out.protocol = static_cast<std::uint8_t>(service.U16Host(IPVS_SVC_ATTR_PROTOCOL));
    out.address = AddressOf(out.family, service.Bytes(IPVS_SVC_ATTR_ADDR));
    out.port = service.U16Be(IPVS_SVC_ATTR_PORT);
  }
  if (command.malformed() || service.malformed() || AddressBytes(out.family) == 0 ||
      (out.firewall_mark == 0 && out.address.empty())) {
    return std::unexpected("a virtual service has no address and no firewall mark");
  }
  out.scheduler = service.String(IPVS_SVC_ATTR_SCHED_NAME);
  out.flags = service.U32Host(IPVS_SVC_ATTR_FLAGS) & ~std::uint32_t{IP_VS_SVC_F_HASHED};
  out.timeout_seconds = service.U32Host(IPVS_SVC_ATTR_TIMEOUT);
  out.prefix_length = PrefixLengthOf(out.family, service.Bytes(IPVS_SVC_ATTR_NETMASK));
  TakeStatistics(service.Bytes(IPVS_SVC_ATTR_STATS64), out);
  return out;
}

std::expected<reply::Destination, std::string> DecodeDestination(const ServiceKey& key,
                                                                 Bytes attributes) {
  const wire::AttrTable<IPVS_CMD_ATTR_MAX> command(attributes);
  const wire::AttrTable<IPVS_DEST_ATTR_MAX> destination(command.Bytes(IPVS_CMD_ATTR_DEST));
  reply::Destination out;
  out.family = key.family;
  out.protocol = key.protocol;
  out.address = key.address;
  out.port = key.port;
  const auto family =
      static_cast<std::uint8_t>(destination.U16Host(IPVS_DEST_ATTR_ADDR_FAMILY, key.family));
  out.destination = AddressOf(family, destination.Bytes(IPVS_DEST_ATTR_ADDR));
  if (command.malformed() || destination.malformed() || out.destination.empty()) {
    return std::unexpected("a destination has no address");
  }
  out.destination_port = destination.U16Be(IPVS_DEST_ATTR_PORT);
  out.forwarding = destination.U32Host(IPVS_DEST_ATTR_FWD_METHOD);
  out.weight = destination.U32Host(IPVS_DEST_ATTR_WEIGHT);
  out.upper_threshold = destination.U32Host(IPVS_DEST_ATTR_U_THRESH);
  out.lower_threshold = destination.U32Host(IPVS_DEST_ATTR_L_THRESH);
  out.active_connections = destination.U32Host(IPVS_DEST_ATTR_ACTIVE_CONNS);
  out.inactive_connections = destination.U32Host(IPVS_DEST_ATTR_INACT_CONNS);
  out.persistent_connections = destination.U32Host(IPVS_DEST_ATTR_PERSIST_CONNS);
  TakeStatistics(destination.Bytes(IPVS_DEST_ATTR_STATS64), out);
  return out;
}

std::expected<reply::IpvsTimeouts, std::string> DecodeTimeouts(Bytes attributes) {
  const wire::AttrTable<IPVS_CMD_ATTR_MAX> command(attributes);
  if (command.malformed()) return std::unexpected("the timeouts have a malformed attribute");
  return reply::IpvsTimeouts{command.U32Host(IPVS_CMD_ATTR_TIMEOUT_TCP),
                             command.U32Host(IPVS_CMD_ATTR_TIMEOUT_TCP_FIN),
                             command.U32Host(IPVS_CMD_ATTR_TIMEOUT_UDP)};
}

std::expected<reply::IpvsInfo, std::string> DecodeInfo(Bytes attributes) {
  const wire::AttrTable<IPVS_INFO_ATTR_MAX> info(attributes);
  if (info.malformed() || !info.Has(IPVS_INFO_ATTR_VERSION)) {
    return std::unexpected("IPVS does not report its version");
  }
  return reply::IpvsInfo{info.U32Host(IPVS_INFO_ATTR_VERSION),
                         info.U32Host(IPVS_INFO_ATTR_CONN_TAB_SIZE)};
}

}  // namespace fairlead::ipvs
