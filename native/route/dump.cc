#include "route/dump.h"

#include <linux/if_addr.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include <array>

#include "base/address_bytes.h"
#include "protocol/dump_answer.h"
#include "protocol/one_of.h"
#include "route/link.h"
#include "route/message.h"
#include "wire/byte_order.h"

namespace fairlead::route {

namespace request = protocol::request;
using protocol::BadRecord;

namespace {

using protocol::Checked;
using Outcome = std::expected<ByteBuffer, SystemError>;

Checked Check(const request::LinkGet& get) noexcept {
  if (IsLinkName(get.link)) return {};
  return std::unexpected(BadRecord{get.kName, "link", "is not a name of 1 to 15 bytes"});
}

Checked Check(const request::LinksDump&) noexcept { return {}; }

Checked Check(const request::DeadNeighboursDump&) noexcept { return {}; }

Checked Check(const request::AddressesDump& dump) noexcept {
  if (dump.family != AF_UNSPEC && AddressBytes(dump.family) == 0) {
    return std::unexpected(BadRecord{dump.kName, "family", "is neither IPv4 nor IPv6 nor both"});
  }
  if (dump.link.empty() || IsLinkName(dump.link)) return {};
  return std::unexpected(BadRecord{dump.kName, "link", "is not a name of 1 to 15 bytes"});
}

wire::Taken TakeLink(const wire::Message& message, protocol::RecordWriter& out) {
  const auto link = DecodeLink(message);
  if (!link) return std::unexpected(link.error());
  out.Append(protocol::reply::Link{link->name, link->index, link->type, link->flags, link->master,
                                   static_cast<std::uint8_t>(link->leaves)});
  return {};
}

struct Runner {
  wire::Socket& socket;

  Outcome operator()(const request::LinkGet& get) const {
    return protocol::AnswerDump(socket, EncodeLinkGet(get.link, socket.next_sequence()), TakeLink);
  }

  Outcome operator()(const request::LinksDump&) const {
    return protocol::AnswerDump(socket, EncodeLinksDump(socket.next_sequence()), TakeLink);
  }

  Outcome operator()(const request::AddressesDump& dump) const {
    std::uint32_t index = 0;
    if (!dump.link.empty()) {
      const auto link = ResolveLink(socket, dump.link);
      if (!link) return std::unexpected(link.error());
      if (link->index == 0) {
        return protocol::EndDump({.error = link->error, .words = link->words}, {});
      }
      index = link->index;
    }
    return protocol::AnswerDump(socket,
                                EncodeAddressesDump(dump.family, index, socket.next_sequence()),
                                [&](const wire::Message& message, protocol::RecordWriter& out) {
                                  return TakeAddress(dump.family, index, message, out);
                                });
  }

  Outcome operator()(const request::DeadNeighboursDump&) const {
    wire::MessageWriter out;
    out.BeginMessage(RTM_GETNEIGH, NLM_F_REQUEST | NLM_F_DUMP, socket.next_sequence());
    out.PutFamilyHeader(std::array<std::uint8_t, sizeof(ndmsg)>{});
    out.EndMessage();
    return protocol::AnswerDump(socket, out, TakeDeadNeighbour);
  }
};

}  // namespace

std::expected<Request, BadRecord> ReadRequest(std::span<const std::uint8_t> buffer) {
  return protocol::ReadRequest<Request>(buffer, [](const auto& request) { return Check(request); });
}

wire::MessageWriter EncodeAddressesDump(std::uint8_t family, std::uint32_t index,
                                        std::uint32_t sequence) {
  wire::MessageWriter out;
  out.BeginMessage(RTM_GETADDR, NLM_F_REQUEST | NLM_F_DUMP, sequence);
  std::array<std::uint8_t, sizeof(ifaddrmsg)> header = {family};
  wire::StoreHost(header.data() + offsetof(ifaddrmsg, ifa_index), index);
  out.PutFamilyHeader(header);
  out.EndMessage();
  return out;
}

wire::Taken TakeAddress(std::uint8_t family, std::uint32_t index, const wire::Message& message,
                        protocol::RecordWriter& out) {
  if (message.type != RTM_NEWADDR) return {};
  const auto rest = wire::AttributesOf(message, sizeof(ifaddrmsg));
  if (!rest) return std::unexpected(rest.error());
  const std::uint8_t* header = message.payload.data();
  const wire::AttrTable<IFA_FLAGS> attributes(*rest);
  protocol::reply::Address address;
  address.family = header[0];
  address.index = wire::LoadHost<std::uint32_t>(header + offsetof(ifaddrmsg, ifa_index));
  if (family != AF_UNSPEC && address.family != family) return {};
  if (index != 0 && address.index != index) return {};
  // Addresses of other families (MPLS, phone networks) are skipped.
  const std::size_t length = AddressBytes(address.family);
  if (length == 0) return {};
  address.address = attributes.Bytes(attributes.Has(IFA_LOCAL) ? IFA_LOCAL : IFA_ADDRESS);
  if (attributes.malformed() || address.address.size() != length) {
    return std::unexpected("an address has the length of another family");
  }
  address.prefix_length = header[1];
  address.flags = attributes.U32Host(IFA_FLAGS, header[2]);
  address.scope = header[3];
  out.Append(address);
  return {};
}

wire::Taken TakeDeadNeighbour(const wire::Message& message, protocol::RecordWriter& out) {
  if (message.type != RTM_NEWNEIGH) return {};
  const auto rest = wire::AttributesOf(message, sizeof(ndmsg));
  if (!rest) return std::unexpected(rest.error());
  const std::uint8_t* header = message.payload.data();
  const auto state = wire::LoadHost<std::uint16_t>(header + offsetof(ndmsg, ndm_state));
  const std::size_t length = AddressBytes(header[0]);
  if (length == 0 || (state & (NUD_INCOMPLETE | NUD_FAILED)) == 0) return {};
  const wire::AttrTable<NDA_DST> attributes(*rest);
  const auto address = attributes.Bytes(NDA_DST);
  if (attributes.malformed() || address.size() != length) {
    return std::unexpected("a neighbour has an address of another family");
  }
  out.Append(protocol::reply::DeadNeighbour{
      wire::LoadHost<std::uint32_t>(header + offsetof(ndmsg, ndm_ifindex)), address});
  return {};
}

Outcome RunRequest(wire::Socket& socket, const Request& request) {
  return std::visit(Runner{socket}, request);
}

}  // namespace fairlead::route
