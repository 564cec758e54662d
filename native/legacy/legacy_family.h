#ifndef FAIRLEAD_LEGACY_LEGACY_FAMILY_H_
#define FAIRLEAD_LEGACY_LEGACY_FAMILY_H_

#include "protocol/family.h"

namespace fairlead::legacy {

/** Reads what iptables-legacy writes: a buffer holds one request. */
class LegacyFamily : public protocol::Family {
 public:
  bool Handles(std::uint32_t code) const noexcept override;
  std::expected<ByteBuffer, SystemError> Run(std::span<const std::uint8_t> buffer) override;
};

}  // namespace fairlead::legacy

#endif  // FAIRLEAD_LEGACY_LEGACY_FAMILY_H_
