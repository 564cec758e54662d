#ifndef FAIRLEAD_ROUTE_ROUTE_FAMILY_H_
#define FAIRLEAD_ROUTE_ROUTE_FAMILY_H_

#include "protocol/family.h"
#include "wire/lazy_socket.h"

namespace fairlead::route {

/** Links and addresses (rtnetlink): a buffer holds ops, each of which is tried by itself, or one
 * request. */
class RouteFamily : public protocol::Family {
 public:
  /** `receive_buffer_bytes`: 0 = enough for the errors of a full send. */
  explicit RouteFamily(int receive_buffer_bytes) noexcept;

  bool Handles(std::uint32_t code) const noexcept override;
  std::expected<ByteBuffer, SystemError> Run(std::span<const std::uint8_t> buffer) override;

 private:
  std::expected<ByteBuffer, SystemError> RunRequest(wire::Socket& socket,
                                                    std::span<const std::uint8_t> buffer);

  wire::LazySocket socket_;
};

}  // namespace fairlead::route

#endif  // FAIRLEAD_ROUTE_ROUTE_FAMILY_H_
