// Messages of the generic netlink family IPVS.
#ifndef FAIRLEAD_IPVS_MESSAGE_H_
#define FAIRLEAD_IPVS_MESSAGE_H_

#include <linux/genetlink.h>
#include <linux/ip_vs.h>
#include <linux/netlink.h>

#include <array>
#include <cstdint>
#include <span>

#include "wire/message_writer.h"

namespace fairlead::ipvs {

/** The header fields of a message: the kernel's number of the family IPVS, and the sequence. */
struct Route {
  std::uint16_t family_id = 0;
  std::uint32_t sequence = 0;
};

/** Starts the message IPVS_CMD_*; NLM_F_REQUEST is added to `flags`. */
inline void BeginMessage(wire::MessageWriter& out, Route to, int command, int flags) noexcept {
  out.BeginMessage(to.family_id, static_cast<std::uint16_t>(NLM_F_REQUEST | flags), to.sequence);
  // genlmsghdr: command, version, reserved.
  const std::array<std::uint8_t, GENL_HDRLEN> header = {static_cast<std::uint8_t>(command),
                                                        IPVS_GENL_VERSION};
  out.PutFamilyHeader(header);
}

/** Puts an address as nf_inet_addr: 16 bytes, of which IPv4 uses the first four. */
void PutAddress(wire::MessageWriter& out, std::uint16_t attribute,
                std::span<const std::uint8_t> address) noexcept;

/** The identity of a virtual service. */
struct ServiceKey {
  std::uint8_t family = 0;
  std::uint8_t protocol = 0;
  /** In network order; 4 or 16 bytes. */
  std::span<const std::uint8_t> address;
  std::uint16_t port = 0;
};

/** Puts the attributes of IPVS_CMD_ATTR_SERVICE that identify the service. */
void PutKey(wire::MessageWriter& out, const ServiceKey& key) noexcept;

}  // namespace fairlead::ipvs

#endif  // FAIRLEAD_IPVS_MESSAGE_H_
