#ifndef FAIRLEAD_IPSET_IPSET_FAMILY_H_
#define FAIRLEAD_IPSET_IPSET_FAMILY_H_

#include "protocol/family.h"
#include "protocol/record_reader.h"
#include "wire/lazy_socket.h"

namespace fairlead::ipset {

/** Sets of ipset: a buffer holds ops, each of which is tried by itself, or one request. */
class IpsetFamily : public protocol::Family {
 public:
  IpsetFamily() noexcept;

  bool Handles(std::uint32_t code) const noexcept override;
  std::expected<ByteBuffer, SystemError> Run(std::span<const std::uint8_t> buffer) override;

 private:
  std::expected<ByteBuffer, SystemError> Dump(wire::Socket& socket,
                                              const protocol::Record& request);

  wire::LazySocket socket_;
};

}  // namespace fairlead::ipset

#endif  // FAIRLEAD_IPSET_IPSET_FAMILY_H_
