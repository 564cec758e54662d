#ifndef FAIRLEAD_IPSET_IPSET_FAMILY_H_
#define FAIRLEAD_IPSET_IPSET_FAMILY_H_

#include <variant>

#include "protocol/netlink_family.h"
#include "protocol/ops.gen.h"

namespace fairlead::ipset {

using Op = std::variant<protocol::op::IpsetDestroy>;
using Request = std::variant<protocol::request::IpsetsDump, protocol::request::IpsetPortsDump>;

/** Sets of ipset. Each op is tried on its own. */
class IpsetFamily : public protocol::NetlinkFamily<Op, Request> {
 public:
  IpsetFamily() noexcept;

 private:
  std::expected<ByteBuffer, SystemError> RunRequest(wire::Socket& socket,
                                                    std::span<const std::uint8_t> buffer) override;
  std::expected<ByteBuffer, SystemError> RunOps(wire::Socket& socket,
                                                std::span<const std::uint8_t> ops,
                                                std::uint32_t first_op) override;
};

}  // namespace fairlead::ipset

#endif  // FAIRLEAD_IPSET_IPSET_FAMILY_H_
