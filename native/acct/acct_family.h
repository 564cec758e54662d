#ifndef FAIRLEAD_ACCT_ACCT_FAMILY_H_
#define FAIRLEAD_ACCT_ACCT_FAMILY_H_

#include "protocol/family.h"
#include "wire/lazy_socket.h"

namespace fairlead::acct {

/** Counters of nfnetlink_acct: a buffer holds ops, each tried by itself, or one request. */
class AcctFamily : public protocol::Family {
 public:
  AcctFamily() noexcept;

  bool Handles(std::uint32_t code) const noexcept override;
  std::expected<ByteBuffer, SystemError> Run(std::span<const std::uint8_t> buffer) override;

 private:
  std::expected<ByteBuffer, SystemError> Dump(wire::Socket& socket);

  wire::LazySocket socket_;
};

}  // namespace fairlead::acct

#endif  // FAIRLEAD_ACCT_ACCT_FAMILY_H_
