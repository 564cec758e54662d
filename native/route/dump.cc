#include "route/dump.h"

#include <linux/if_addr.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include <array>
#include <utility>

#include "protocol/dump_answer.h"
#include "route/link.h"
#include "route/message.h"
#include "wire/byte_order.h"
#include "wire/dump_reader.h"

namespace fairlead::route {

namespace request = protocol::request;
using protocol::DecodeError;

namespace {

using Taken = std::expected<void, std::string>;
using Outcome = std::expected<DumpOutcome, SystemError>;

std::expected<void, DecodeError> Check(const request::LinkGet& get) noexcept {
  if (IsLinkName(get.link)) return {};
  return std::unexpected(DecodeError{get.kName, "link", "is no name of 1 to 15 bytes"});
}

std::expected<void, DecodeError> Check(const request::AddressesDump& dump) noexcept {
  if (dump.family != AF_UNSPEC && AddressBytes(dump.family) == 0) {
    return std::unexpected(DecodeError{dump.kName, "family", "is neither IPv4 nor IPv6 nor both"});
  }
  if (dump.link.empty() || IsLinkName(dump.link)) return {};
  return std::unexpected(DecodeError{dump.kName, "link", "is no name of 1 to 15 bytes"});
}

template <typename R>
std::expected<Request, DecodeError> ReadChecked(std::span<const std::uint8_t> payload) {
  const auto read = protocol::Read<R>(payload);
  if (!read) return std::unexpected(read.error());
  if (const auto checked = Check(*read); !checked) return std::unexpected(checked.error());
  return *read;
}

Taken TakeLink(const wire::Message& message, protocol::RecordWriter& out) {
  const auto link = DecodeLink(message);
  if (!link) return std::unexpected(link.error());
  out.Append(protocol::reply::Link{link->name, link->index, link->type, link->flags});
  return {};
}

struct Runner {
  wire::Socket& socket;

  Outcome operator()(const request::LinkGet& get) const {
    const std::uint32_t sequence = Next();
    return Ask(EncodeLinkGet(get.link, sequence), sequence, TakeLink);
  }

  Outcome operator()(const request::AddressesDump& dump) const {
    std::uint32_t index = 0;
    if (!dump.link.empty()) {
      auto link = ResolveLink(socket, dump.link);
      if (!link) return std::unexpected(std::move(link.error()));
      if (link->index == 0) {
        const wire::DumpEnd end{.error = link->error, .words = link->words};
        return DumpOutcome{protocol::EndDump(end, {}), true};
      }
      index = link->index;
    }
    const std::uint32_t sequence = Next();
    return Ask(EncodeAddressesDump(dump.family, index, sequence), sequence,
               [&](const wire::Message& message, protocol::RecordWriter& out) {
                 return TakeAddress(dump.family, index, message, out);
               });
  }

  std::uint32_t Next() const {
    const std::uint32_t sequence = socket.next_sequence();
    socket.SkipSequences(1);
    return sequence;
  }

  template <typename Take>
  Outcome Ask(const wire::MessageWriter& message, std::uint32_t sequence, Take take) const {
    const auto sent = socket.Send(message.bytes());
    if (!sent) return std::unexpected(sent.error());
    protocol::RecordWriter out;
    wire::DumpReader reader(sequence, [&](const wire::Message& each) { return take(each, out); });
    const auto complete = wire::ReceiveDump(socket, reader);
    if (!complete) return std::unexpected(complete.error());
    return DumpOutcome{protocol::EndDump(reader.Finish(), std::move(out)), *complete};
  }
};

}  // namespace

bool IsRequest(std::uint32_t code) noexcept {
  return code == request::LinkGet::kCode || code == request::AddressesDump::kCode;
}

std::expected<Request, DecodeError> ReadRequest(std::span<const std::uint8_t> buffer) {
  protocol::RecordReader reader(buffer);
  const auto record = reader.Next();
  if (!record) return std::unexpected(record.error());
  if (!reader.AtEnd()) return std::unexpected(DecodeError{"request", "buffer", "holds more"});
  if (record->code == request::LinkGet::kCode) {
    return ReadChecked<request::LinkGet>(record->payload);
  }
  return ReadChecked<request::AddressesDump>(record->payload);
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

Taken TakeAddress(std::uint8_t family, std::uint32_t index, const wire::Message& message,
                  protocol::RecordWriter& out) {
  if (message.type != RTM_NEWADDR) return {};
  if (message.payload.size() < sizeof(ifaddrmsg)) {
    return std::unexpected("the kernel sent a short message");
  }
  const std::uint8_t* header = message.payload.data();
  const wire::AttrTable<IFA_FLAGS> attributes(message.payload.subspan(sizeof(ifaddrmsg)));
  protocol::reply::Address address;
  address.family = header[0];
  address.index = wire::LoadHost<std::uint32_t>(header + offsetof(ifaddrmsg, ifa_index));
  if (family != AF_UNSPEC && address.family != family) return {};
  if (index != 0 && address.index != index) return {};
  // Addresses of other families (MPLS, phone networks) are nothing to us.
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

Outcome RunRequest(wire::Socket& socket, const Request& request) {
  return std::visit(Runner{socket}, request);
}

}  // namespace fairlead::route
