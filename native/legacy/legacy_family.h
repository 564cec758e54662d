#ifndef FAIRLEAD_LEGACY_LEGACY_FAMILY_H_
#define FAIRLEAD_LEGACY_LEGACY_FAMILY_H_

#include <string>
#include <utility>

#include "protocol/family.h"

namespace fairlead::legacy {

/**
 * Reads what iptables-legacy writes, and removes of it what it is told to. A buffer holds one
 * request, or ops; those for one table that follow one another replace it in one step.
 */
class LegacyFamily : public protocol::Family {
 public:
  /** `lock`: the path of the lock that is held while a table is replaced. */
  explicit LegacyFamily(std::string lock) noexcept : lock_(std::move(lock)) {}

  bool Handles(std::uint32_t code) const noexcept override;
  std::expected<ByteBuffer, SystemError> Run(std::span<const std::uint8_t> buffer) override;

 private:
  std::string lock_;
};

}  // namespace fairlead::legacy

#endif  // FAIRLEAD_LEGACY_LEGACY_FAMILY_H_
