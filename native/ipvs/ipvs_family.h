#ifndef FAIRLEAD_IPVS_IPVS_FAMILY_H_
#define FAIRLEAD_IPVS_IPVS_FAMILY_H_

#include "ipvs/dump.h"
#include "ipvs/ops.h"
#include "protocol/netlink_family.h"

namespace fairlead::ipvs {

/** IPVS. Each op is tried on its own. */
class IpvsFamily : public protocol::NetlinkFamily<Op, Request> {
 public:
  /** `receive_buffer_bytes`: 0 = room for the errors of a whole datagram. */
  explicit IpvsFamily(int receive_buffer_bytes) noexcept;

 private:
  std::expected<ByteBuffer, SystemError> RunRequest(wire::Socket& socket,
                                                    std::span<const std::uint8_t> buffer) override;
  std::expected<ByteBuffer, SystemError> RunOps(wire::Socket& socket,
                                                std::span<const std::uint8_t> ops,
                                                std::uint32_t first_op) override;
};

}  // namespace fairlead::ipvs

#endif  // FAIRLEAD_IPVS_IPVS_FAMILY_H_
