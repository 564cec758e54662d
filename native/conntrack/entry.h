// Entries of connection tracking: as netlink has them, and packed as src/kernel/ops.ts says.
#ifndef FAIRLEAD_CONNTRACK_ENTRY_H_
#define FAIRLEAD_CONNTRACK_ENTRY_H_

#include <cstdint>
#include <expected>
#include <optional>
#include <span>

#include "base/byte_buffer.h"
#include "wire/message_writer.h"

namespace fairlead::conntrack {

/** Bytes of a packed entry of the family, see `conntrackEntries`. */
std::size_t PackedBytes(std::uint8_t family) noexcept;

/** Address and port in network order. */
struct Peer {
  std::span<const std::uint8_t> address;
  /** Two bytes; empty for a protocol without ports. */
  std::span<const std::uint8_t> port;
};

/** What packets of one direction look like. */
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
  std::uint16_t zone = 0;
  /** IPS_*. */
  std::uint32_t status = 0;
  /** CTA_ID: tells this entry from a later one with the same tuples. 0 = not known. */
  std::uint32_t id = 0;
};

/**
 * Reads the attributes of IPCTNL_MSG_CT_NEW:
 *
 *   CTA_TUPLE_ORIG, CTA_TUPLE_REPLY {
 *     CTA_TUPLE_IP { CTA_IP_V4_SRC, CTA_IP_V4_DST | CTA_IP_V6_SRC, CTA_IP_V6_DST }
 *     CTA_TUPLE_PROTO { CTA_PROTO_NUM u8, CTA_PROTO_SRC_PORT be16, CTA_PROTO_DST_PORT be16 }
 *     CTA_TUPLE_ZONE be16 }
 *   CTA_STATUS be32, CTA_ID be32, CTA_ZONE be16, others that are skipped
 *
 * On failure: what is wrong, a literal.
 */
std::expected<Entry, const char*> DecodeEntry(std::uint8_t family,
                                              std::span<const std::uint8_t> attributes) noexcept;

/** Appends a packed entry; all addresses and ports must have their length. */
void Pack(const Entry& entry, ByteBuffer& out) noexcept;

/** Reads the packed entry that `packed`, of PackedBytes, holds. */
Entry Unpack(std::uint8_t family, std::span<const std::uint8_t> packed) noexcept;

// Parts of CTA_TUPLE_ORIG.
void PutAddress(wire::MessageWriter& out, std::uint8_t family, const Peer& source,
                const Peer& destination) noexcept;
void PutProtocol(wire::MessageWriter& out, std::uint8_t protocol, const Peer& source,
                 const Peer& destination) noexcept;

}  // namespace fairlead::conntrack

#endif  // FAIRLEAD_CONNTRACK_ENTRY_H_
