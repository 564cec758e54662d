#ifndef FAIRLEAD_ACCT_ACCT_FAMILY_H_
#define FAIRLEAD_ACCT_ACCT_FAMILY_H_

#include <optional>

#include "protocol/family.h"
#include "wire/socket.h"

namespace fairlead::acct {

/** Counters of nfnetlink_acct: a buffer holds ops, each tried by itself, or one request. */
class AcctFamily : public protocol::Family {
 public:
  bool Handles(std::uint32_t code) const noexcept override;
  std::expected<ByteBuffer, SystemError> Run(std::span<const std::uint8_t> buffer) override;

 private:
  std::expected<wire::Socket*, SystemError> OpenSocket();
  std::expected<ByteBuffer, SystemError> Dump();

  std::optional<wire::Socket> socket_;
};

}  // namespace fairlead::acct

#endif  // FAIRLEAD_ACCT_ACCT_FAMILY_H_
