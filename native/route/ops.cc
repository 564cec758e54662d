#include "route/ops.h"

#include <linux/if.h>
#include <linux/if_addr.h>
#include <linux/rtnetlink.h>

#include <array>

#include "route/message.h"
#include "wire/byte_order.h"

namespace fairlead::route {

namespace op = protocol::op;
using protocol::DecodeError;
using Result = std::expected<void, DecodeError>;

namespace {

// The kernel's modules have shorter names; a longer one would not fit an attribute.
constexpr std::size_t kTypeBytesMax = 31;

Result CheckName(const char* record, std::string_view link) noexcept {
  if (IsLinkName(link)) return {};
  return std::unexpected(DecodeError{record, "link", "is no name of 1 to 15 bytes"});
}

Result Encode(const op::LinkAdd& op, std::uint32_t sequence, wire::MessageWriter& out) {
  if (op.type.empty() || op.type.size() > kTypeBytesMax) {
    return std::unexpected(DecodeError{op.kName, "type", "is no name of 1 to 31 bytes"});
  }
  BeginLinkMessage(out, RTM_NEWLINK, NLM_F_CREATE, sequence);
  out.PutString(IFLA_IFNAME, op.link);
  const auto info = out.BeginNest(IFLA_LINKINFO);
  out.PutString(IFLA_INFO_KIND, op.type);
  out.EndNest(info);
  return {};
}

Result Encode(const op::LinkUp& op, std::uint32_t sequence, wire::MessageWriter& out) {
  BeginLinkMessage(out, RTM_NEWLINK, 0, sequence, IFF_UP);
  out.PutString(IFLA_IFNAME, op.link);
  return {};
}

Result Encode(const op::LinkDelete& op, std::uint32_t sequence, wire::MessageWriter& out) {
  BeginLinkMessage(out, RTM_DELLINK, 0, sequence);
  out.PutString(IFLA_IFNAME, op.link);
  return {};
}

template <typename Op>
Result ReadAndEncode(std::span<const std::uint8_t> payload, std::uint32_t sequence,
                     wire::MessageWriter& out) {
  const auto read = protocol::Read<Op>(payload);
  if (!read) return std::unexpected(read.error());
  if (const auto checked = CheckName(Op::kName, read->link); !checked) return checked;
  const Result encoded = Encode(*read, sequence, out);
  if (encoded) out.EndMessage();
  return encoded;
}

template <typename Op>
std::expected<Addresses, DecodeError> ReadAndCheck(Addresses::Change change,
                                                   std::span<const std::uint8_t> payload) {
  const auto op = protocol::Read<Op>(payload);
  if (!op) return std::unexpected(op.error());
  const auto refuse = [](const char* field, const char* problem) {
    return std::unexpected(DecodeError{Op::kName, field, problem});
  };
  const std::size_t address_bytes = AddressBytes(op->family);
  if (address_bytes == 0) return refuse("family", "is neither IPv4 nor IPv6");
  if (op->prefix_length > 8 * address_bytes) {
    return refuse("prefixLength", "is longer than an address");
  }
  if (op->addresses.size() % address_bytes != 0) return refuse("addresses", "ends within one");
  if (op->link.empty() ? op->index == 0 : !IsLinkName(op->link)) {
    return refuse("link", "is no name of 1 to 15 bytes, and there is no index");
  }
  Addresses addresses{change, op->family, op->link, op->index, op->prefix_length, op->addresses, 0};
  if constexpr (requires { op->flags; }) addresses.flags = op->flags;
  return addresses;
}

}  // namespace

bool IsLinkOp(std::uint32_t code) noexcept {
  return code == op::LinkAdd::kCode || code == op::LinkUp::kCode || code == op::LinkDelete::kCode;
}

bool IsOp(std::uint32_t code) noexcept {
  return IsLinkOp(code) || code == op::AddressesAdd::kCode || code == op::AddressesDelete::kCode;
}

Result EncodeLinkOp(const protocol::Record& record, std::uint32_t sequence,
                    wire::MessageWriter& out) {
  switch (record.code) {
    case op::LinkAdd::kCode:
      return ReadAndEncode<op::LinkAdd>(record.payload, sequence, out);
    case op::LinkUp::kCode:
      return ReadAndEncode<op::LinkUp>(record.payload, sequence, out);
    case op::LinkDelete::kCode:
      return ReadAndEncode<op::LinkDelete>(record.payload, sequence, out);
    default:
      return std::unexpected(DecodeError{"op", "code", "is not one of the schema"});
  }
}

std::size_t Addresses::count() const noexcept { return addresses.size() / AddressBytes(family); }

std::span<const std::uint8_t> Addresses::At(std::size_t entry) const noexcept {
  const std::size_t length = AddressBytes(family);
  return addresses.subspan(entry * length, length);
}

std::expected<Addresses, DecodeError> ReadAddresses(const protocol::Record& record) {
  if (record.code == op::AddressesAdd::kCode) {
    return ReadAndCheck<op::AddressesAdd>(Addresses::Change::kAdd, record.payload);
  }
  if (record.code == op::AddressesDelete::kCode) {
    return ReadAndCheck<op::AddressesDelete>(Addresses::Change::kDelete, record.payload);
  }
  return std::unexpected(DecodeError{"op", "code", "is not one of the schema"});
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
