// The header of ctnetlink messages.
#ifndef FAIRLEAD_CONNTRACK_MESSAGE_H_
#define FAIRLEAD_CONNTRACK_MESSAGE_H_

#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>

#include <cstdint>

#include "wire/message_writer.h"

namespace fairlead::conntrack {

constexpr std::uint16_t MessageType(int message) noexcept {
  return static_cast<std::uint16_t>(NFNL_SUBSYS_CTNETLINK << 8 | message);
}

/** Starts the message IPCTNL_MSG_CT_*; NLM_F_REQUEST is added to `flags`. */
inline void BeginMessage(wire::MessageWriter& out, int message, int flags, std::uint8_t family,
                         std::uint32_t sequence) noexcept {
  out.BeginMessage(MessageType(message), static_cast<std::uint16_t>(NLM_F_REQUEST | flags),
                   sequence);
  const std::uint8_t header[sizeof(nfgenmsg)] = {family, NFNETLINK_V0};
  out.PutFamilyHeader(header);
}

}  // namespace fairlead::conntrack

#endif  // FAIRLEAD_CONNTRACK_MESSAGE_H_
