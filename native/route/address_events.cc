#include "route/address_events.h"

#include <linux/if.h>
#include <linux/if_addr.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "wire/attr_reader.h"

namespace fairlead::route {

namespace {

/** The kernel's notifications are smaller; of one that is not, the beginning is enough. */
constexpr std::size_t kNotificationBytes = std::size_t{16} * 1024;

/** The header at the beginning of a message's payload. Zeroes where the payload is too short. */
template <typename Header>
Header HeaderOf(const wire::Message& message) noexcept {
  Header header{};
  if (message.payload.size() >= sizeof(header)) {
    std::memcpy(&header, message.payload.data(), sizeof(header));
  }
  return header;
}

bool TellsOfAddress(const wire::Message& message) noexcept {
  switch (message.type) {
    case RTM_NEWADDR:
    case RTM_DELADDR: {
      const auto address = HeaderOf<ifaddrmsg>(message);
      return address.ifa_family != AF_INET6 || address.ifa_scope != RT_SCOPE_LINK;
    }
    case RTM_NEWLINK:
      return (HeaderOf<ifinfomsg>(message).ifi_change & (IFF_UP | IFF_RUNNING)) != 0;
    case RTM_DELLINK:
      return true;
    default:
      return false;
  }
}

}  // namespace

bool TellsOfAddresses(std::span<const std::uint8_t> datagram) noexcept {
  wire::MessageReader reader(datagram);
  bool tells = false;
  while (const auto message = reader.Next()) tells = TellsOfAddress(*message) || tells;
  return tells;
}

std::expected<AddressEvents, SystemError> AddressEvents::Open() {
  FileDescriptor fd(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE));
  if (!fd.valid()) return std::unexpected(SystemError::Last("socket AF_NETLINK"));
  sockaddr_nl address{};
  address.nl_family = AF_NETLINK;
  address.nl_groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR;
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    return std::unexpected(SystemError::Last("bind AF_NETLINK"));
  }
  return AddressEvents(std::move(fd));
}

std::expected<bool, SystemError> AddressEvents::Take() {
  std::array<std::uint8_t, kNotificationBytes> datagram;
  bool changed = false;
  for (;;) {
    const ssize_t received = ::recv(fd_.get(), datagram.data(), datagram.size(), 0);
    if (received > 0) {
      changed = TellsOfAddresses(std::span(datagram).first(static_cast<std::size_t>(received))) ||
                changed;
    } else if (received < 0 && errno == ENOBUFS) {
      changed = true;
    } else if (received == 0 || errno != EINTR) {
      if (received == 0 || errno == EAGAIN) return changed;
      return std::unexpected(SystemError::Last("recv AF_NETLINK"));
    }
  }
}

}  // namespace fairlead::route
