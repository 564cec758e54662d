#ifndef FAIRLEAD_IPVS_IPVS_FAMILY_H_
#define FAIRLEAD_IPVS_IPVS_FAMILY_H_

#include "ipvs/family_id.h"
#include "protocol/family.h"
#include "wire/lazy_socket.h"

namespace fairlead::ipvs {

/** IPVS: a buffer holds ops, each of which is tried by itself, or one request. */
class IpvsFamily : public protocol::Family {
 public:
  /** `receive_buffer_bytes`: 0 = enough for the errors of a full send. */
  explicit IpvsFamily(int receive_buffer_bytes) noexcept;

  bool Handles(std::uint32_t code) const noexcept override;
  std::expected<ByteBuffer, SystemError> Run(std::span<const std::uint8_t> buffer) override;

 private:
  std::expected<ByteBuffer, SystemError> RunRequest(wire::Socket& socket, const FamilyId& family,
                                                    std::span<const std::uint8_t> buffer);

  wire::LazySocket socket_;
};

}  // namespace fairlead::ipvs

#endif  // FAIRLEAD_IPVS_IPVS_FAMILY_H_
