// Reads links (rtnetlink).
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

/** A link, from RTM_NEWLINK. Refers to the message. */
struct Link {
  std::uint32_t index = 0;
  /** IFF_*. */
  std::uint32_t flags = 0;
  std::string_view name;
  /** IFLA_INFO_KIND, such as `dummy`; empty for a device without one. */
  std::string_view type;
  /** Index of the link that it is a part of, such as a bridge; 0 = none. */
  std::uint32_t master = 0;
  /** Its other end is in another network namespace. */
  bool leaves = false;
};

/** Reads RTM_NEWLINK. On failure: what is wrong with the message. */
std::expected<Link, std::string> DecodeLink(const wire::Message& message);

/** The index of a link, or why the kernel does not give it. */
struct LinkIndex {
  /** 0 = unknown, see `error`. */
  std::uint32_t index = 0;
  /** ENODEV when the link does not exist. */
  int error = 0;
  std::string words;
};
/** Asks the kernel for the index of a link. */
std::expected<LinkIndex, SystemError> ResolveLink(wire::Socket& socket, std::string_view name);

}  // namespace fairlead::route

#endif  // FAIRLEAD_ROUTE_LINK_H_
