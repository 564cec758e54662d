#ifndef FAIRLEAD_ACCT_ACCT_FAMILY_H_
#define FAIRLEAD_ACCT_ACCT_FAMILY_H_

#include <variant>

#include "protocol/netlink_family.h"
#include "protocol/ops.gen.h"

namespace fairlead::acct {

using Op = std::variant<protocol::op::AcctAdd, protocol::op::AcctDelete>;
using Request = std::variant<protocol::request::AcctsDump>;

/**
 * Named counters of nfnetlink_acct, which rules of iptables use with `-m nfacct`. Each op is tried
 * on its own.
 */
class AcctFamily : public protocol::NetlinkFamily<Op, Request> {
 public:
  AcctFamily() noexcept;

 private:
  std::expected<ByteBuffer, SystemError> RunRequest(wire::Socket& socket,
                                                    std::span<const std::uint8_t> buffer) override;
  std::expected<ByteBuffer, SystemError> RunOps(wire::Socket& socket,
                                                std::span<const std::uint8_t> ops,
                                                std::uint32_t first_op) override;
};

}  // namespace fairlead::acct

#endif  // FAIRLEAD_ACCT_ACCT_FAMILY_H_
