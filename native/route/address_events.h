// The kernel's notifications that addresses of this machine may have changed.
#ifndef FAIRLEAD_ROUTE_ADDRESS_EVENTS_H_
#define FAIRLEAD_ROUTE_ADDRESS_EVENTS_H_

#include <cstdint>
#include <expected>
#include <span>
#include <utility>

#include "base/file_descriptor.h"
#include "base/system_error.h"

namespace fairlead::route {

/**
 * Whether a datagram of the groups RTNLGRP_LINK, RTNLGRP_IPV4_IFADDR and RTNLGRP_IPV6_IFADDR says
 * that an address came or went, or that a link did, or went up or down, with which its addresses
 * do. Addresses of IPv6 that are link-local do not count.
 */
bool TellsOfAddresses(std::span<const std::uint8_t> datagram) noexcept;

/** A socket that belongs to these groups, in the network namespace of the thread that opens it. */
class AddressEvents {
 public:
  static std::expected<AddressEvents, SystemError> Open();

  /** For poll(2). */
  int fd() const noexcept { return fd_.get(); }

  /**
   * Reads all that has come, without waiting. Returns whether addresses may have changed, also when
   * the kernel had to drop messages.
   */
  std::expected<bool, SystemError> Take();

 private:
  explicit AddressEvents(FileDescriptor fd) noexcept : fd_(std::move(fd)) {}

  FileDescriptor fd_;
};

}  // namespace fairlead::route

#endif  // FAIRLEAD_ROUTE_ADDRESS_EVENTS_H_
