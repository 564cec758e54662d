#ifndef FAIRLEAD_ROUTE_ROUTE_FAMILY_H_
#define FAIRLEAD_ROUTE_ROUTE_FAMILY_H_

#include <variant>

#include "protocol/netlink_family.h"
#include "route/dump.h"

namespace fairlead::route {

using Op = std::variant<protocol::op::LinkAdd, protocol::op::LinkDelete, protocol::op::AddressesAdd,
                        protocol::op::AddressesDelete>;

/** Links and addresses (rtnetlink). Each op is tried on its own. */
class RouteFamily : public protocol::NetlinkFamily<Op, Request> {
 public:
  /** `receive_buffer_bytes`: 0 = room for the errors of a whole datagram. */
  explicit RouteFamily(int receive_buffer_bytes) noexcept;

 private:
  std::expected<ByteBuffer, SystemError> RunRequest(wire::Socket& socket,
                                                    std::span<const std::uint8_t> buffer) override;
  std::expected<ByteBuffer, SystemError> RunOps(wire::Socket& socket,
                                                std::span<const std::uint8_t> ops,
                                                std::uint32_t first_op) override;
};

}  // namespace fairlead::route

#endif  // FAIRLEAD_ROUTE_ROUTE_FAMILY_H_
