#ifndef FAIRLEAD_CONNTRACK_CONNTRACK_FAMILY_H_
#define FAIRLEAD_CONNTRACK_CONNTRACK_FAMILY_H_

#include "conntrack/dump.h"
#include "protocol/family.h"
#include "wire/lazy_socket.h"

namespace fairlead::conntrack {

/** Connection tracking (ctnetlink): a buffer holds one request. */
class ConntrackFamily : public protocol::Family {
 public:
  ConntrackFamily() noexcept;

  bool Handles(std::uint32_t code) const noexcept override;
  std::expected<ByteBuffer, SystemError> Run(std::span<const std::uint8_t> buffer) override;

 private:
  std::expected<ByteBuffer, SystemError> Dump(const DumpRequest& request);

  wire::LazySocket socket_;
  /** Becomes kNone when the kernel refuses its filters. */
  KernelFilter filter_ = KernelFilter::kWanted;
};

}  // namespace fairlead::conntrack

#endif  // FAIRLEAD_CONNTRACK_CONNTRACK_FAMILY_H_
