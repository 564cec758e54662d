#ifndef FAIRLEAD_NFTRACE_NFTRACE_FAMILY_H_
#define FAIRLEAD_NFTRACE_NFTRACE_FAMILY_H_

#include <cstdint>
#include <expected>
#include <optional>
#include <span>

#include "protocol/family.h"
#include "wire/socket.h"

namespace fairlead::nftrace {

/**
 * Reads the events of nf_tables about traced packets. Its socket joins NFNLGRP_NFTRACE at the first
 * request, and sends nothing.
 */
class NftraceFamily : public protocol::Family {
 public:
  bool Handles(std::uint32_t code) const noexcept override;
  std::expected<ByteBuffer, SystemError> Run(std::span<const std::uint8_t> buffer,
                                             std::uint32_t first_op) override;

 private:
  std::optional<wire::Socket> socket_;
};

}  // namespace fairlead::nftrace

#endif  // FAIRLEAD_NFTRACE_NFTRACE_FAMILY_H_
