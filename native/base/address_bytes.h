#ifndef FAIRLEAD_BASE_ADDRESS_BYTES_H_
#define FAIRLEAD_BASE_ADDRESS_BYTES_H_

#include <sys/socket.h>

#include <cstddef>
#include <cstdint>

namespace fairlead {

/** Bytes of an address of the family AF_INET or AF_INET6; 0 for any other. */
constexpr std::size_t AddressBytes(std::uint8_t family) noexcept {
  if (family == AF_INET) return 4;
  return family == AF_INET6 ? 16 : 0;
}

}  // namespace fairlead

#endif  // FAIRLEAD_BASE_ADDRESS_BYTES_H_
