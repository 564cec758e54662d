#include "route/ops.h"

#include <linux/if.h>
#include <linux/if_addr.h>
#include <linux/rtnetlink.h>

#include <array>

#include "base/address_bytes.h"
#include "protocol/one_of.h"
#include "route/message.h"
#include "wire/byte_order.h"

namespace fairlead::route {

namespace op = protocol::op;
using protocol::BadRecord;
using protocol::Checked;

namespace {

/** The kinds of links that the kernel has are shorter. */
constexpr std::size_t kTypeBytesMax = 31;

/** Starts a message about the link of the op. */
template <typename R>
Checked BeginNamed(const R& op, std::uint16_t type, int flags, std::uint32_t link_flags,
                   std::uint32_t sequence, wire::MessageWriter& out) {
  if (!IsLinkName(op.link)) {
    return std::unexpected(BadRecord{R::kName, "link", "is not a name of 1 to 15 bytes"});
  }
  BeginLinkMessage(out, type, flags, sequence, link_flags);
  out.PutString(IFLA_IFNAME, op.link);
  return {};
}

template <typename R>
std::expected<Addresses, BadRecord> CheckAddresses(Addresses::Change change, const R& op) {
  const auto refuse = [](const char* field, const char* problem) {
    return std::unexpected(BadRecord{R::kName, field, problem});
  };
  const std::size_t address_bytes = AddressBytes(op.family);
  if (address_bytes == 0) return refuse("family", "is neither IPv4 nor IPv6");
  if (op.prefix_length > 8 * address_bytes) {
    return refuse("prefixLength", "is longer than an address");
  }
  if (op.addresses.size() % address_bytes != 0) return refuse("addresses", "ends within one");
  if (op.link.empty() ? op.index == 0 : !IsLinkName(op.link)) {
    return refuse("link", "is not a name of 1 to 15 bytes, and index is 0");
  }
  Addresses addresses{change, op.family, op.link, op.index, op.prefix_length, op.addresses, 0};
  if constexpr (requires { op.flags; }) addresses.flags = op.flags;
  return addresses;
}

}  // namespace

Checked LinkEncoder::operator()(const op::LinkAdd& op, std::uint32_t sequence,
                                wire::MessageWriter& out) const {
  if (op.type.empty() || op.type.size() > kTypeBytesMax) {
    return std::unexpected(BadRecord{op.kName, "type", "is not a name of 1 to 31 bytes"});
  }
  const Checked begun = BeginNamed(op, RTM_NEWLINK, NLM_F_CREATE, 0, sequence, out);
  if (!begun) return begun;
  const auto info = out.BeginNest(IFLA_LINKINFO);
  out.PutString(IFLA_INFO_KIND, op.type);
  out.EndNest(info);
  out.EndMessage();
  return {};
}

Checked LinkEncoder::operator()(const op::LinkDelete& op, std::uint32_t sequence,
                                wire::MessageWriter& out) const {
  const Checked begun = BeginNamed(op, RTM_DELLINK, 0, 0, sequence, out);
  if (begun) out.EndMessage();
  return begun;
}

std::size_t Addresses::count() const noexcept { return addresses.size() / AddressBytes(family); }

std::span<const std::uint8_t> Addresses::At(std::size_t entry) const noexcept {
  const std::size_t length = AddressBytes(family);
  return addresses.subspan(entry * length, length);
}

std::expected<Addresses, BadRecord> ReadAddresses(const protocol::Record& record) {
  const auto read = protocol::ReadOneOf<AddressesOp>(record, "op");
  if (!read) return std::unexpected(read.error());
  if (const auto* add = std::get_if<op::AddressesAdd>(&*read)) {
    return CheckAddresses(Addresses::Change::kAdd, *add);
  }
  return CheckAddresses(Addresses::Change::kDelete, std::get<op::AddressesDelete>(*read));
}

void EncodeAddress(const Addresses& op, std::size_t entry, std::uint32_t index,
                   std::uint32_t sequence, wire::MessageWriter& out) noexcept {
  const bool adds = op.change == Addresses::Change::kAdd;
  out.BeginMessage(
      adds ? RTM_NEWADDR : RTM_DELADDR,
      static_cast<std::uint16_t>(NLM_F_REQUEST | (adds ? NLM_F_CREATE | NLM_F_EXCL : 0)), sequence);
  // ifaddrmsg: family, prefix length, flags, scope, index u32.
  std::array<std::uint8_t, sizeof(ifaddrmsg)> header = {op.family, op.prefix_length};
  wire::StoreHost(header.data() + offsetof(ifaddrmsg, ifa_index), index);
  out.PutFamilyHeader(header);
  out.PutBytes(IFA_LOCAL, op.At(entry));
  out.PutBytes(IFA_ADDRESS, op.At(entry));
  if (op.flags != 0) out.PutU32Host(IFA_FLAGS, op.flags);
  out.EndMessage();
}

}  // namespace fairlead::route
