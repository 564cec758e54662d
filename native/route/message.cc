#include "route/message.h"

#include <linux/if.h>
#include <linux/rtnetlink.h>

#include <array>

#include "wire/byte_order.h"

namespace fairlead::route {

namespace {

// Without the counters of a link the kernel's answer is much smaller.
constexpr std::uint32_t kNoStatistics = RTEXT_FILTER_SKIP_STATS;

}  // namespace

bool IsLinkName(std::string_view name) noexcept { return !name.empty() && name.size() < IFNAMSIZ; }

void BeginLinkMessage(wire::MessageWriter& out, std::uint16_t type, int flags,
                      std::uint32_t sequence, std::uint32_t link_flags) noexcept {
  out.BeginMessage(type, static_cast<std::uint16_t>(NLM_F_REQUEST | flags), sequence);
  // ifinfomsg: family, padding, type u16, index i32, flags u32, change u32.
  std::array<std::uint8_t, sizeof(ifinfomsg)> header{};
  wire::StoreHost(header.data() + offsetof(ifinfomsg, ifi_flags), link_flags);
  wire::StoreHost(header.data() + offsetof(ifinfomsg, ifi_change), link_flags);
  out.PutFamilyHeader(header);
}

wire::MessageWriter EncodeLinkGet(std::string_view name, std::uint32_t sequence) noexcept {
  wire::MessageWriter out;
  BeginLinkMessage(out, RTM_GETLINK, NLM_F_ACK, sequence);
  out.PutString(IFLA_IFNAME, name);
  out.PutU32Host(IFLA_EXT_MASK, kNoStatistics);
  out.EndMessage();
  return out;
}

wire::MessageWriter EncodeLinksDump(std::uint32_t sequence) noexcept {
  wire::MessageWriter out;
  BeginLinkMessage(out, RTM_GETLINK, NLM_F_DUMP, sequence);
  out.PutU32Host(IFLA_EXT_MASK, kNoStatistics);
  out.EndMessage();
  return out;
}

}  // namespace fairlead::route
