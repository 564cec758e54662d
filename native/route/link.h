// Reads links.
#ifndef FAIRLEAD_ROUTE_LINK_H_
#define FAIRLEAD_ROUTE_LINK_H_

#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>

#include "base/system_error.h"
#include "wire/attr_reader.h"
#include "wire/socket.h"

namespace fairlead::route {

/** A link, as RTM_NEWLINK tells of it. Refers to the message. */
struct Link {
  std::uint32_t index = 0;
  /** IFF_*. */
  std::uint32_t flags = 0;
  std::string_view name;
  /** IFLA_INFO_KIND, such as `dummy`; empty for a device of another sort. */
  std::string_view type;
};

/** On failure: what is wrong with the message. */
std::expected<Link, std::string> DecodeLink(const wire::Message& message);

/** The index of a link; 0 and why, when the kernel does not tell it: ENODEV, there is none. */
struct LinkIndex {
  std::uint32_t index = 0;
  int error = 0;
  std::string words;
};
std::expected<LinkIndex, SystemError> ResolveLink(wire::Socket& socket, std::string_view name);

}  // namespace fairlead::route

#endif  // FAIRLEAD_ROUTE_LINK_H_
