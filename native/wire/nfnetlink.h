// Messages of nfnetlink. Each belongs to a subsystem, such as NFNL_SUBSYS_NFTABLES.
#ifndef FAIRLEAD_WIRE_NFNETLINK_H_
#define FAIRLEAD_WIRE_NFNETLINK_H_

#include <linux/netfilter.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>

#include <array>
#include <cstdint>

#include "wire/message_writer.h"
#include "wire/socket.h"

namespace fairlead::wire {

/** Options of a NETLINK_NETFILTER socket. `receive_buffer_bytes`: 0 = the system's default. */
constexpr SocketOptions NfnetlinkOptions(int receive_buffer_bytes = 0) noexcept {
  return {.protocol = NETLINK_NETFILTER,
          .receive_buffer_bytes = receive_buffer_bytes,
          .family_header_bytes = sizeof(nfgenmsg)};
}

/** nlmsg_type of a message of the subsystem NFNL_SUBSYS_*. */
constexpr std::uint16_t NfnetlinkType(int subsystem, int message) noexcept {
  return static_cast<std::uint16_t>(subsystem << 8 | message);
}

/**
 * Starts a message with nfgenmsg { family u8, version u8, resource be16 } and returns its offset.
 * NLM_F_REQUEST is added to `flags`.
 */
inline std::size_t BeginNfnetlink(MessageWriter& out, std::uint16_t type, int flags,
                                  std::uint8_t family, std::uint32_t sequence,
                                  std::uint16_t resource = 0) noexcept {
  const std::size_t offset =
      out.BeginMessage(type, static_cast<std::uint16_t>(NLM_F_REQUEST | flags), sequence);
  const std::array<std::uint8_t, sizeof(nfgenmsg)> header = {
      family, NFNETLINK_V0, static_cast<std::uint8_t>(resource >> 8),
      static_cast<std::uint8_t>(resource & 0xff)};
  out.PutFamilyHeader(header);
  return offset;
}

}  // namespace fairlead::wire

#endif  // FAIRLEAD_WIRE_NFNETLINK_H_
