#ifndef FAIRLEAD_BPF_BPF_FAMILY_H_
#define FAIRLEAD_BPF_BPF_FAMILY_H_

#include <variant>

#include "protocol/family.h"
#include "protocol/ops.gen.h"

namespace fairlead::bpf {

using Op = std::variant<protocol::op::BpfMapsAdd, protocol::op::BpfElementsAdd,
                        protocol::op::BpfElementsDelete, protocol::op::BpfLinksAdd,
                        protocol::op::BpfRemove, protocol::op::BpfDetach,
                        protocol::op::BpfLeaseExtend>;
using Request = std::variant<protocol::request::BpfStateGet, protocol::request::BpfElementsDump,
                             protocol::request::BpfElementsCount, protocol::request::BpfProbe,
                             protocol::request::BpfAttachedGet>;

/**
 * Programs that translate addresses in connect(2), and their maps. This is not a netlink family,
 * but it takes ops and requests in the same form. Each op is tried on its own.
 */
class BpfFamily : public protocol::Family {
 public:
  bool Handles(std::uint32_t code) const noexcept override;
  std::expected<ByteBuffer, SystemError> Run(std::span<const std::uint8_t> buffer,
                                             std::uint32_t first_op) override;
};

}  // namespace fairlead::bpf

#endif  // FAIRLEAD_BPF_BPF_FAMILY_H_
