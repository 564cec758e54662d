#ifndef FAIRLEAD_CONNTRACK_MESSAGE_H_
#define FAIRLEAD_CONNTRACK_MESSAGE_H_

#include <linux/netfilter/nfnetlink_conntrack.h>

#include "wire/nfnetlink.h"

namespace fairlead::conntrack {

/** IPCTNL_MSG_CT_* as nlmsg_type. */
constexpr std::uint16_t MessageType(int message) noexcept {
  return wire::NfnetlinkType(NFNL_SUBSYS_CTNETLINK, message);
}

}  // namespace fairlead::conntrack

#endif  // FAIRLEAD_CONNTRACK_MESSAGE_H_
