// Messages of rtnetlink about links and addresses.
#ifndef FAIRLEAD_ROUTE_MESSAGE_H_
#define FAIRLEAD_ROUTE_MESSAGE_H_

#include <cstdint>
#include <string_view>

#include "wire/message_writer.h"

namespace fairlead::route {

/** Whether a link may have the name, which has 1 to 15 bytes (IFNAMSIZ). */
bool IsLinkName(std::string_view name) noexcept;

/** Starts RTM_*LINK with ifinfomsg { ifi_flags, ifi_change }; NLM_F_REQUEST is added to `flags`. */
void BeginLinkMessage(wire::MessageWriter& out, std::uint16_t type, int flags,
                      std::uint32_t sequence, std::uint32_t link_flags = 0) noexcept;

/** RTM_GETLINK { IFLA_IFNAME, IFLA_EXT_MASK }. Its acknowledgement ends the answer. */
wire::MessageWriter EncodeLinkGet(std::string_view name, std::uint32_t sequence) noexcept;

/** RTM_GETLINK { IFLA_EXT_MASK } for all links. */
wire::MessageWriter EncodeLinksDump(std::uint32_t sequence) noexcept;

}  // namespace fairlead::route

#endif  // FAIRLEAD_ROUTE_MESSAGE_H_
