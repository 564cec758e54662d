#ifndef FAIRLEAD_CONNTRACK_CONNTRACK_FAMILY_H_
#define FAIRLEAD_CONNTRACK_CONNTRACK_FAMILY_H_

#include <variant>

#include "conntrack/delete.h"
#include "conntrack/dump.h"
#include "protocol/netlink_family.h"

namespace fairlead::conntrack {

/** Connection tracking (ctnetlink). A buffer holds one record. */
class ConntrackFamily
    : public protocol::NetlinkFamily<std::variant<DeleteRequest>, std::variant<DumpRequest>> {
 public:
  ConntrackFamily() noexcept;

 private:
  std::expected<ByteBuffer, SystemError> RunRequest(wire::Socket& socket,
                                                    std::span<const std::uint8_t> buffer) override;
  std::expected<ByteBuffer, SystemError> RunOps(wire::Socket& socket,
                                                std::span<const std::uint8_t> ops,
                                                std::uint32_t first_op) override;

  /** kNone after the kernel has refused filters. */
  KernelFilter filter_ = KernelFilter::kWanted;
};

}  // namespace fairlead::conntrack

#endif  // FAIRLEAD_CONNTRACK_CONNTRACK_FAMILY_H_
