#include "route/link_change_reader.h"

#include <linux/rtnetlink.h>

#include "wire/attr_reader.h"

namespace fairlead::route {

void LinkChangeReader::Take(std::span<const std::uint8_t> datagram, std::uint32_t) noexcept {
  wire::MessageReader reader(datagram);
  while (const auto message = reader.Next()) {
    changed_ = changed_ || message->type == RTM_NEWLINK || message->type == RTM_DELLINK;
  }
}

}  // namespace fairlead::route
