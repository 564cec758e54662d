#ifndef FAIRLEAD_CONNTRACK_CONNTRACK_FAMILY_H_
#define FAIRLEAD_CONNTRACK_CONNTRACK_FAMILY_H_

#include <optional>

#include "conntrack/dump.h"
#include "protocol/family.h"
#include "wire/socket.h"

namespace fairlead::conntrack {

/** Connection tracking (ctnetlink): a buffer holds one request. */
class ConntrackFamily : public protocol::Family {
 public:
  bool Handles(std::uint32_t code) const noexcept override;
  std::expected<ByteBuffer, SystemError> Run(std::span<const std::uint8_t> buffer) override;

 private:
  std::expected<wire::Socket*, SystemError> OpenSocket();
  std::expected<ByteBuffer, SystemError> Dump(const DumpRequest& request);

  std::optional<wire::Socket> socket_;
  /** Becomes kNone when the kernel refuses its filters. */
  KernelFilter filter_ = KernelFilter::kWanted;
};

}  // namespace fairlead::conntrack

#endif  // FAIRLEAD_CONNTRACK_CONNTRACK_FAMILY_H_
