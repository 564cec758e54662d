#include "conntrack/delete.h"

#include <algorithm>
#include <cerrno>
#include <vector>

#include "base/address_bytes.h"
#include "conntrack/entry.h"
#include "conntrack/message.h"
#include "wire/ack_collector.h"

namespace fairlead::conntrack {

namespace {

/** Answers that fit a receive buffer of default size. One takes about 800 bytes. */
constexpr std::size_t kEntriesPerSend = 128;

/** Reads the errno of each message. All answers are there when the send returns. */
std::expected<void, SystemError> CollectErrors(wire::Socket& socket, std::uint32_t first_sequence,
                                               std::span<std::uint32_t> errors) {
  const auto count = static_cast<std::uint32_t>(errors.size());
  wire::AckCollector answers(first_sequence, count);
  for (;;) {
    const auto received = socket.Receive(0);
    if (!received) return std::unexpected(received.error());
    if (received->outcome == wire::Socket::Outcome::kNothing) break;
    if (received->outcome == wire::Socket::Outcome::kData) answers.Take(received->datagram);
  }
  for (std::uint32_t i = 0; i < count; ++i) errors[i] = answers.Answered(i) ? 0 : ENOMSG;
  for (const wire::Refusal& refusal : answers.refusals()) {
    errors[refusal.message] = static_cast<std::uint32_t>(refusal.error);
  }
  return {};
}

}  // namespace

protocol::Checked Check(const DeleteRequest& request) noexcept {
  const auto refuse = [](const char* field, const char* problem) {
    return std::unexpected(protocol::BadRecord{DeleteRequest::kName, field, problem});
  };
  if (AddressBytes(request.family) == 0) return refuse("family", "is neither IPv4 nor IPv6");
  if (request.entries.size() % PackedBytes(request.family) != 0) {
    return refuse("entries", "ends within an entry");
  }
  return {};
}

wire::MessageWriter EncodeDelete(std::uint8_t family, std::span<const std::uint8_t> entries,
                                 std::uint32_t first_sequence) {
  wire::MessageWriter out;
  std::uint32_t sequence = first_sequence;
  const std::size_t stride = PackedBytes(family);
  for (auto rest = entries; !rest.empty(); rest = rest.subspan(stride)) {
    const Entry entry = Unpack(family, rest.first(stride));
    const auto& [source, destination, protocol, zone] = entry.original;
    wire::BeginNfnetlink(out, MessageType(IPCTNL_MSG_CT_DELETE), NLM_F_ACK, family, sequence++);
    const auto tuple = out.BeginNest(CTA_TUPLE_ORIG);
    PutAddress(out, family, source, destination);
    PutProtocol(out, protocol, source, destination);
    out.EndNest(tuple);
    if (entry.id != 0) out.PutU32Be(CTA_ID, entry.id);
    if (entry.zone != 0) out.PutU16Be(CTA_ZONE, entry.zone);
    out.EndMessage();
  }
  return out;
}

std::expected<ByteBuffer, SystemError> RunDelete(wire::Socket& socket,
                                                 const DeleteRequest& request) {
  const std::size_t stride = PackedBytes(request.family);
  std::vector<std::uint32_t> errors(request.entries.size() / stride);
  for (std::size_t first = 0; first < errors.size(); first += kEntriesPerSend) {
    const std::size_t count = std::min(kEntriesPerSend, errors.size() - first);
    const std::uint32_t sequence = socket.next_sequence();
    socket.SkipSequences(static_cast<std::uint32_t>(count));
    const auto part = request.entries.subspan(first * stride, count * stride);
    const auto sent = socket.Send(EncodeDelete(request.family, part, sequence).bytes());
    if (!sent) return std::unexpected(sent.error());
    const auto collected = CollectErrors(socket, sequence, std::span(errors).subspan(first, count));
    if (!collected) return std::unexpected(collected.error());
  }
  protocol::RecordWriter out;
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(errors.data());
  out.Append(protocol::reply::ConntrackDeleted{{bytes, errors.size() * sizeof(errors[0])}});
  return std::move(out.buffer());
}

}  // namespace fairlead::conntrack
