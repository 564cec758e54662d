// Encodes the ops that change links and addresses (rtnetlink).
#ifndef FAIRLEAD_ROUTE_OPS_H_
#define FAIRLEAD_ROUTE_OPS_H_

#include <cstddef>
#include <cstdint>
#include <expected>
#include <span>
#include <string_view>
#include <variant>

#include "protocol/ops.gen.h"
#include "wire/message_writer.h"

namespace fairlead::route {

/** Ops that change a link itself. */
using LinkOp = std::variant<protocol::op::LinkAdd, protocol::op::LinkDelete>;
/** Ops that add or delete addresses of a link. */
using AddressesOp = std::variant<protocol::op::AddressesAdd, protocol::op::AddressesDelete>;

/**
 * Appends the message of an op:
 *
 *   RTM_NEWLINK IFLA_IFNAME, IFLA_LINKINFO { IFLA_INFO_KIND }
 *   RTM_DELLINK IFLA_IFNAME
 *
 * On failure the caller drops what was written.
 */
struct LinkEncoder {
  protocol::Checked operator()(const protocol::op::LinkAdd& op, std::uint32_t sequence,
                               wire::MessageWriter& out) const;
  protocol::Checked operator()(const protocol::op::LinkDelete& op, std::uint32_t sequence,
                               wire::MessageWriter& out) const;
};

/** The addresses of an op addressesAdd or addressesDelete. */
struct Addresses {
  enum class Change { kAdd, kDelete };
  Change change = Change::kAdd;
  /** AF_INET or AF_INET6. */
  std::uint8_t family = 0;
  /** The name of the link; empty = `index` says which. */
  std::string_view link;
  std::uint32_t index = 0;
  std::uint8_t prefix_length = 0;
  /** The addresses in network order, one after the other. */
  std::span<const std::uint8_t> addresses;
  /** IFA_F_*. */
  std::uint32_t flags = 0;

  std::size_t count() const noexcept;
  std::span<const std::uint8_t> At(std::size_t entry) const noexcept;
};

/** Reads and checks an op addressesAdd or addressesDelete. */
std::expected<Addresses, protocol::BadRecord> ReadAddresses(const protocol::Record& record);

/**
 * Appends the message for one address of the link `index`:
 *
 *   RTM_NEWADDR, RTM_DELADDR ifaddrmsg { family, prefixlen, index }
 *     IFA_LOCAL, IFA_ADDRESS: the address
 *     IFA_FLAGS u32, unless 0
 */
void EncodeAddress(const Addresses& op, std::size_t entry, std::uint32_t index,
                   std::uint32_t sequence, wire::MessageWriter& out) noexcept;

}  // namespace fairlead::route

#endif  // FAIRLEAD_ROUTE_OPS_H_
