#ifndef FAIRLEAD_LEGACY_LEGACY_FAMILY_H_
#define FAIRLEAD_LEGACY_LEGACY_FAMILY_H_

#include <string>
#include <utility>

#include "protocol/family.h"

namespace fairlead::legacy {

/**
 * Reads the tables of iptables-legacy, and removes chains and rules from them. A buffer holds one
 * request or ops. Consecutive ops for one table replace it in one step.
 */
class LegacyFamily : public protocol::Family {
 public:
  /** `lock`: the path of the lock that is held while a table is replaced. */
  explicit LegacyFamily(std::string lock) noexcept : lock_(std::move(lock)) {}

  bool Handles(std::uint32_t code) const noexcept override;
  std::expected<ByteBuffer, SystemError> Run(std::span<const std::uint8_t> buffer,
                                             std::uint32_t first_op) override;

 private:
  std::string lock_;
};

}  // namespace fairlead::legacy

#endif  // FAIRLEAD_LEGACY_LEGACY_FAMILY_H_
