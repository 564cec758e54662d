#include "conntrack/entry.h"

#include <linux/netfilter/nfnetlink_conntrack.h>

#include <cstring>

#include "base/address_bytes.h"
#include "wire/attr_reader.h"
#include "wire/byte_order.h"

namespace fairlead::conntrack {

namespace {

using Bytes = std::span<const std::uint8_t>;

constexpr std::size_t kPortBytes = 2;

/** Protocol u8, TCP state u8, zone u16, status u32, id u32. */
constexpr std::size_t kTailBytes = 12;

struct AddressTypes {
  std::uint16_t source;
  std::uint16_t destination;
};

constexpr AddressTypes TypesOf(std::uint8_t family) noexcept {
  return family == AF_INET ? AddressTypes{CTA_IP_V4_SRC, CTA_IP_V4_DST}
                           : AddressTypes{CTA_IP_V6_SRC, CTA_IP_V6_DST};
}

Bytes PortOf(const wire::AttrTable<CTA_PROTO_MAX>& protocol, std::size_t type) noexcept {
  const Bytes port = protocol.Bytes(type);
  return port.size() == kPortBytes ? port : Bytes{};
}

std::optional<Tuple> DecodeTuple(std::uint8_t family, Bytes attributes) noexcept {
  const wire::AttrTable<CTA_TUPLE_MAX> tuple(attributes);
  const wire::AttrTable<CTA_IP_MAX> addresses(tuple.Bytes(CTA_TUPLE_IP));
  const wire::AttrTable<CTA_PROTO_MAX> protocol(tuple.Bytes(CTA_TUPLE_PROTO));
  const AddressTypes types = TypesOf(family);
  const std::size_t length = AddressBytes(family);
  if (addresses.Bytes(types.source).size() != length ||
      addresses.Bytes(types.destination).size() != length || !protocol.Has(CTA_PROTO_NUM)) {
    return std::nullopt;
  }
  return Tuple{{addresses.Bytes(types.source), PortOf(protocol, CTA_PROTO_SRC_PORT)},
               {addresses.Bytes(types.destination), PortOf(protocol, CTA_PROTO_DST_PORT)},
               protocol.U8(CTA_PROTO_NUM),
               tuple.U16Be(CTA_TUPLE_ZONE)};
}

std::uint8_t TcpState(Bytes attributes) noexcept {
  const wire::AttrTable<CTA_PROTOINFO_MAX> info(attributes);
  const wire::AttrTable<CTA_PROTOINFO_TCP_MAX> tcp(info.Bytes(CTA_PROTOINFO_TCP));
  return tcp.U8(CTA_PROTOINFO_TCP_STATE);
}

std::uint8_t* Store(std::uint8_t* out, Bytes bytes) noexcept {
  std::memcpy(out, bytes.data(), bytes.size());
  return out + bytes.size();
}

std::uint8_t* Store(std::uint8_t* out, const Peer& peer) noexcept {
  return Store(Store(out, peer.address), peer.port);
}

Peer TakePeer(Bytes& rest, std::size_t address_bytes) noexcept {
  const Peer peer{rest.first(address_bytes), rest.subspan(address_bytes, kPortBytes)};
  rest = rest.subspan(address_bytes + kPortBytes);
  return peer;
}

}  // namespace

std::size_t PackedBytes(std::uint8_t family) noexcept {
  return 4 * (AddressBytes(family) + kPortBytes) + kTailBytes;
}

std::expected<Entry, const char*> DecodeEntry(std::uint8_t family, Bytes attributes) noexcept {
  const wire::AttrTable<CTA_MAX> table(attributes);
  const auto original = DecodeTuple(family, table.Bytes(CTA_TUPLE_ORIG));
  const auto reply = DecodeTuple(family, table.Bytes(CTA_TUPLE_REPLY));
  if (table.malformed() || !original || !reply) {
    return std::unexpected("an entry lacks one of its tuples");
  }
  return Entry{*original,
               *reply,
               TcpState(table.Bytes(CTA_PROTOINFO)),
               table.U16Be(CTA_ZONE),
               table.U32Be(CTA_STATUS),
               table.U32Be(CTA_ID)};
}

void Pack(const Entry& entry, ByteBuffer& out) noexcept {
  const std::size_t address_bytes = entry.original.source.address.size();
  std::uint8_t* at = out.Extend(4 * (address_bytes + kPortBytes) + kTailBytes);
  at = Store(at, entry.original.source);
  at = Store(at, entry.original.destination);
  at = Store(at, entry.reply.source);
  at = Store(at, entry.reply.destination);
  at[0] = entry.original.protocol;
  at[1] = entry.tcp_state;
  wire::StoreHost(at + 2, entry.zone);
  wire::StoreHost(at + 4, entry.status);
  wire::StoreHost(at + 8, entry.id);
}

Entry Unpack(std::uint8_t family, Bytes packed) noexcept {
  const std::size_t address_bytes = AddressBytes(family);
  Entry entry;
  entry.original.source = TakePeer(packed, address_bytes);
  entry.original.destination = TakePeer(packed, address_bytes);
  entry.reply.source = TakePeer(packed, address_bytes);
  entry.reply.destination = TakePeer(packed, address_bytes);
  entry.original.protocol = packed[0];
  entry.reply.protocol = packed[0];
  entry.tcp_state = packed[1];
  entry.zone = wire::LoadHost<std::uint16_t>(packed.data() + 2);
  entry.status = wire::LoadHost<std::uint32_t>(packed.data() + 4);
  entry.id = wire::LoadHost<std::uint32_t>(packed.data() + 8);
  return entry;
}

void PutAddress(wire::MessageWriter& out, std::uint8_t family, const Peer& source,
                const Peer& destination) noexcept {
  const AddressTypes types = TypesOf(family);
  const auto nest = out.BeginNest(CTA_TUPLE_IP);
  if (!source.address.empty()) out.PutBytes(types.source, source.address);
  if (!destination.address.empty()) out.PutBytes(types.destination, destination.address);
  out.EndNest(nest);
}

void PutProtocol(wire::MessageWriter& out, std::uint8_t protocol, const Peer& source,
                 const Peer& destination) noexcept {
  const auto nest = out.BeginNest(CTA_TUPLE_PROTO);
  out.PutU8(CTA_PROTO_NUM, protocol);
  if (!source.port.empty()) out.PutBytes(CTA_PROTO_SRC_PORT, source.port);
  if (!destination.port.empty()) out.PutBytes(CTA_PROTO_DST_PORT, destination.port);
  out.EndNest(nest);
}

}  // namespace fairlead::conntrack
