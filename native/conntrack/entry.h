// Entries of connection tracking, as in netlink and packed (src/kernel/conntrack-ops.ts).
#ifndef FAIRLEAD_CONNTRACK_ENTRY_H_
#define FAIRLEAD_CONNTRACK_ENTRY_H_

#include <cstdint>
#include <expected>
#include <optional>
#include <span>

#include "base/byte_buffer.h"
#include "wire/message_writer.h"

namespace fairlead::conntrack {

/** Bytes of a packed entry of the family. `conntrackEntries` has the layout. */
std::size_t PackedBytes(std::uint8_t family) noexcept;

/** Address and port in network order. */
struct Peer {
  std::span<const std::uint8_t> address;
  /** Two bytes; empty for a protocol without ports. */
  std::span<const std::uint8_t> port;
};

/** The addresses, ports and protocol of the packets of one direction. */
struct Tuple {
  Peer source;
  Peer destination;
  std::uint8_t protocol = 0;
  /** The zone of this direction only (CTA_TUPLE_ZONE); 0 = that of the whole entry. */
  std::uint16_t zone = 0;
};

/** Refers to the message or buffer that it was read from. */
struct Entry {
  Tuple original;
  Tuple reply;
  /** TCP_CONNTRACK_*; 0 = not known, or another protocol. */
  std::uint8_t tcp_state = 0;
  std::uint16_t zone = 0;
  /** IPS_*. */
  std::uint32_t status = 0;
  /** CTA_ID: differs from that of a later entry with the same tuples. 0 = not known. */
  std::uint32_t id = 0;
};

/**
 * Reads the attributes of IPCTNL_MSG_CT_NEW:
 *
 *   CTA_TUPLE_ORIG, CTA_TUPLE_REPLY {
 *     CTA_TUPLE_IP { CTA_IP_V4_SRC, CTA_IP_V4_DST | CTA_IP_V6_SRC, CTA_IP_V6_DST }
 *     CTA_TUPLE_PROTO { CTA_PROTO_NUM u8, CTA_PROTO_SRC_PORT be16, CTA_PROTO_DST_PORT be16 }
 *     CTA_TUPLE_ZONE be16 }
 *   CTA_PROTOINFO { CTA_PROTOINFO_TCP { CTA_PROTOINFO_TCP_STATE u8 } }
 *   CTA_STATUS be32, CTA_ID be32, CTA_ZONE be16
 *
 * On failure: what is wrong, as a literal.
 */
std::expected<Entry, const char*> DecodeEntry(std::uint8_t family,
                                              std::span<const std::uint8_t> attributes) noexcept;

/** Appends a packed entry. All addresses and ports must have the lengths of the family. */
void Pack(const Entry& entry, ByteBuffer& out) noexcept;

/** Reads a packed entry, which has PackedBytes. */
Entry Unpack(std::uint8_t family, std::span<const std::uint8_t> packed) noexcept;

// Write CTA_TUPLE_IP and CTA_TUPLE_PROTO. Empty addresses and ports are left out.
void PutAddress(wire::MessageWriter& out, std::uint8_t family, const Peer& source,
                const Peer& destination) noexcept;
void PutProtocol(wire::MessageWriter& out, std::uint8_t protocol, const Peer& source,
                 const Peer& destination) noexcept;

}  // namespace fairlead::conntrack

#endif  // FAIRLEAD_CONNTRACK_ENTRY_H_
