#include "ipvs/message.h"

#include <algorithm>

namespace fairlead::ipvs {

void PutAddress(wire::MessageWriter& out, std::uint16_t attribute,
                std::span<const std::uint8_t> address) noexcept {
  std::array<std::uint8_t, 16> whole{};
  std::copy(address.begin(), address.end(), whole.begin());
  out.PutBytes(attribute, whole);
}

void PutKey(wire::MessageWriter& out, const ServiceKey& key) noexcept {
  out.PutU16Host(IPVS_SVC_ATTR_AF, key.family);
  out.PutU16Host(IPVS_SVC_ATTR_PROTOCOL, key.protocol);
  PutAddress(out, IPVS_SVC_ATTR_ADDR, key.address);
  out.PutU16Be(IPVS_SVC_ATTR_PORT, key.port);
}

}  // namespace fairlead::ipvs
