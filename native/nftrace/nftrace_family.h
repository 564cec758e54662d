#ifndef FAIRLEAD_NFTRACE_NFTRACE_FAMILY_H_
#define FAIRLEAD_NFTRACE_NFTRACE_FAMILY_H_

#include <variant>

#include "protocol/netlink_family.h"
#include "protocol/ops.gen.h"

namespace fairlead::nftrace {

/**
 * Reads the events of nf_tables about traced packets. Its socket joins NFNLGRP_NFTRACE at the first
 * request, and sends nothing.
 */
class NftraceFamily
    : public protocol::NetlinkFamily<std::variant<>, std::variant<protocol::request::NftraceRead>> {
 public:
  NftraceFamily() noexcept;

 private:
  std::expected<ByteBuffer, SystemError> RunRequest(wire::Socket& socket,
                                                    std::span<const std::uint8_t> buffer) override;
};

}  // namespace fairlead::nftrace

#endif  // FAIRLEAD_NFTRACE_NFTRACE_FAMILY_H_
