#include "conntrack/dump.h"

#include <linux/in.h>

#include <algorithm>
#include <array>

#include "base/address_bytes.h"
#include "conntrack/message.h"
#include "protocol/dump_answer.h"
#include "wire/byte_order.h"

namespace fairlead::conntrack {

namespace {

// Bits of CTA_FILTER_ORIG_FLAGS: CTA_FILTER_F_* of net/netfilter/nf_internals.h, which the UAPI
// headers do not have.
constexpr std::uint32_t kFilterDestination = 1u << 1;
constexpr std::uint32_t kFilterProtocol = 1u << 3;
constexpr std::uint32_t kFilterDestinationPort = 1u << 5;

std::array<std::uint8_t, 2> PortBe(const DumpRequest& request) noexcept {
  std::array<std::uint8_t, 2> port;
  wire::StoreBe(port.data(), request.port);
  return port;
}

void PutTupleFilter(wire::MessageWriter& out, const DumpRequest& request) {
  std::uint32_t flags = kFilterProtocol;
  const auto port = PortBe(request);
  Peer destination;
  // For IPv6 the kernel skips the entries with this address and sends all others:
  // ctnetlink_filter_match_tuple reads ipv6_addr_cmp as a test of equality (seen with 6.18).
  if (request.family == AF_INET && !request.destination.empty()) {
    flags |= kFilterDestination;
    destination.address = request.destination;
  }
  if (request.port != 0) {
    flags |= kFilterDestinationPort;
    destination.port = port;
  }
  const auto tuple = out.BeginNest(CTA_TUPLE_ORIG);
  if (!destination.address.empty()) PutAddress(out, request.family, {}, destination);
  PutProtocol(out, request.protocol, {}, destination);
  out.EndNest(tuple);
  const auto filter = out.BeginNest(CTA_FILTER);
  out.PutU32Host(CTA_FILTER_ORIG_FLAGS, flags);
  out.EndNest(filter);
}

bool IsDestination(const DumpRequest& request, const Peer& destination) noexcept {
  if (!request.destination.empty() &&
      !std::ranges::equal(request.destination, destination.address)) {
    return false;
  }
  return request.port == 0 || std::ranges::equal(PortBe(request), destination.port);
}

}  // namespace

protocol::Checked Check(const DumpRequest& request) noexcept {
  const auto refuse = [](const char* field, const char* problem) {
    return std::unexpected(protocol::BadRecord{DumpRequest::kName, field, problem});
  };
  const std::size_t address_bytes = AddressBytes(request.family);
  if (address_bytes == 0) return refuse("family", "is neither IPv4 nor IPv6");
  if (request.protocol != IPPROTO_TCP && request.protocol != IPPROTO_UDP &&
      request.protocol != IPPROTO_SCTP) {
    return refuse("protocol", "is not TCP, UDP or SCTP");
  }
  if (!request.destination.empty() && request.destination.size() != address_bytes) {
    return refuse("destination", "is not an address of the family");
  }
  if ((request.status & ~request.status_mask) != 0) {
    return refuse("status", "has bits outside of its mask");
  }
  return {};
}

bool Matches(const DumpRequest& request, const Entry& entry) noexcept {
  // An entry with a zone for one direction only is not of the requested zone, whatever its number.
  return entry.original.protocol == request.protocol && entry.zone == request.zone &&
         entry.original.zone == 0 && entry.reply.zone == 0 &&
         (entry.status & request.status_mask) == request.status &&
         IsDestination(request, entry.original.destination);
}

wire::MessageWriter EncodeDump(const DumpRequest& request, KernelFilter filter,
                               std::uint32_t sequence) {
  wire::MessageWriter out;
  wire::BeginNfnetlink(out, MessageType(IPCTNL_MSG_CT_GET), NLM_F_DUMP, request.family, sequence);
  if (filter == KernelFilter::kWanted) {
    PutTupleFilter(out, request);
    if (request.status_mask != 0) {
      out.PutU32Be(CTA_STATUS, request.status);
      out.PutU32Be(CTA_STATUS_MASK, request.status_mask);
    }
    out.PutU16Be(CTA_ZONE, request.zone);
  }
  out.EndMessage();
  return out;
}

wire::Taken TakeEntry(const DumpRequest& request, const wire::Message& message, ByteBuffer& out) {
  if (message.type != MessageType(IPCTNL_MSG_CT_NEW)) return {};
  const auto attributes = wire::AttributesOf(message, sizeof(nfgenmsg));
  if (!attributes) return std::unexpected(attributes.error());
  if (message.payload[0] != request.family) return {};
  const auto entry = DecodeEntry(request.family, *attributes);
  if (!entry) return std::unexpected(entry.error());
  if (!Matches(request, *entry)) return {};
  for (const Peer& peer : {entry->original.source, entry->original.destination, entry->reply.source,
                           entry->reply.destination}) {
    if (peer.port.empty()) return std::unexpected("an entry lacks a port");
  }
  Pack(*entry, out);
  return {};
}

std::expected<DumpOutcome, SystemError> RunDump(wire::Socket& socket, const DumpRequest& request,
                                                KernelFilter filter) {
  ByteBuffer entries;
  const auto end =
      wire::Ask(socket, EncodeDump(request, filter, socket.next_sequence()),
                [&](const wire::Message& message) { return TakeEntry(request, message, entries); });
  if (!end) return std::unexpected(end.error());
  protocol::RecordWriter out;
  out.Append(protocol::reply::ConntrackEntries{request.family, entries.bytes()});
  return DumpOutcome{protocol::EndDump(*end, std::move(out)), end->error};
}

}  // namespace fairlead::conntrack
