#include "ipvs/dump.h"

#include <sys/socket.h>

#include <optional>
#include <string>
#include <utility>

#include "ipvs/decode.h"
#include "protocol/dump_answer.h"

namespace fairlead::ipvs {

namespace request = protocol::request;
using protocol::DecodeError;

namespace {

using Bytes = std::span<const std::uint8_t>;
using Taken = std::expected<void, std::string>;

/** What follows genlmsghdr. */
std::expected<Bytes, std::string> AttributesOf(const wire::Message& message) {
  if (message.payload.size() < GENL_HDRLEN) {
    return std::unexpected("the kernel sent a short message");
  }
  return message.payload.subspan(GENL_HDRLEN);
}

/** A message without attributes; `flags` say how its end is told. */
wire::MessageWriter EncodeBare(int command, int flags, Route to) {
  wire::MessageWriter out;
  BeginMessage(out, to, command, flags);
  out.EndMessage();
  return out;
}

std::expected<void, DecodeError> Check(const request::VirtualServicesDump& dump) noexcept {
  if (dump.family == AF_UNSPEC || AddressBytes(dump.family) != 0) return {};
  return std::unexpected(DecodeError{dump.kName, "family", "is neither IPv4 nor IPv6 nor both"});
}

std::expected<void, DecodeError> Check(const request::DestinationsDump& dump) noexcept {
  if (dump.address.empty()) return Check(request::VirtualServicesDump{dump.family});
  if (AddressBytes(dump.family) == dump.address.size()) return {};
  return std::unexpected(DecodeError{dump.kName, "address", "is no address of the family"});
}

std::expected<void, DecodeError> Check(const request::IpvsTimeoutsGet&) noexcept { return {}; }
std::expected<void, DecodeError> Check(const request::IpvsInfoGet&) noexcept { return {}; }

template <typename R>
std::expected<Request, DecodeError> ReadChecked(Bytes payload) {
  const auto read = protocol::Read<R>(payload);
  if (!read) return std::unexpected(read.error());
  if (const auto checked = Check(*read); !checked) return std::unexpected(checked.error());
  return *read;
}

/** Runs requests on one socket, and notes how they ended. */
class Dumper {
 public:
  Dumper(wire::Socket& socket, std::uint16_t family_id) : socket_(socket), family_id_(family_id) {}

  void operator()(const request::VirtualServicesDump& dump) {
    Ask(EncodeServicesDump(Next()),
        [&](const wire::Message& message) { return TakeService(dump.family, message, out_); });
  }

  void operator()(const request::DestinationsDump& dump) {
    if (!dump.address.empty()) {
      Destinations({dump.family, dump.protocol, dump.address, dump.port});
      return;
    }
    // The kernel tells the destinations of one service at a time.
    protocol::RecordWriter services;
    Ask(EncodeServicesDump(Next()),
        [&](const wire::Message& message) { return TakeService(dump.family, message, services); });
    protocol::RecordReader reader(services.bytes());
    while (!reader.AtEnd() && ended_well()) {
      const auto record = reader.Next();
      const auto service = protocol::Read<protocol::reply::VirtualService>(record->payload);
      if (service->firewall_mark != 0) continue;
      Destinations({service->family, service->protocol, service->address, service->port});
    }
  }

  void operator()(const request::IpvsTimeoutsGet&) {
    Ask(EncodeBare(IPVS_CMD_GET_CONFIG, NLM_F_ACK, Next()),
        [&](const wire::Message& message) { return Take(message, DecodeTimeouts); });
  }

  void operator()(const request::IpvsInfoGet&) {
    Ask(EncodeBare(IPVS_CMD_GET_INFO, NLM_F_ACK, Next()),
        [&](const wire::Message& message) { return Take(message, DecodeInfo); });
  }

  std::expected<DumpOutcome, SystemError> Finish() {
    if (broken_) return std::unexpected(std::move(*broken_));
    return DumpOutcome{protocol::EndDump(end_, std::move(out_)), complete_};
  }

 private:
  Route Next() {
    const Route to{family_id_, socket_.next_sequence()};
    socket_.SkipSequences(1);
    return to;
  }

  bool ended_well() const noexcept { return complete_ && end_.error == 0; }

  void Destinations(const ServiceKey& key) {
    Ask(EncodeDestinationsDump(key, Next()),
        [&](const wire::Message& message) { return TakeDestination(key, message, out_); });
  }

  template <typename Decode>
  Taken Take(const wire::Message& message, Decode decode) {
    const auto attributes = AttributesOf(message);
    if (!attributes) return std::unexpected(attributes.error());
    const auto reply = decode(*attributes);
    if (!reply) return std::unexpected(reply.error());
    out_.Append(*reply);
    return {};
  }

  void Ask(const wire::MessageWriter& message, wire::DumpReader::TakeObject take) {
    const auto sent = socket_.Send(message.bytes());
    if (!sent) return Break(sent.error());
    // The number of the last request.
    wire::DumpReader reader(socket_.next_sequence() - 1, std::move(take));
    const auto complete = wire::ReceiveDump(socket_, reader);
    if (!complete) return Break(complete.error());
    complete_ = *complete;
    wire::DumpEnd end = reader.Finish();
    end.interrupted = end.interrupted || end_.interrupted;
    end_ = std::move(end);
  }

  void Break(const SystemError& error) {
    broken_ = error;
    complete_ = false;
  }

  wire::Socket& socket_;
  std::uint16_t family_id_;
  protocol::RecordWriter out_;
  wire::DumpEnd end_;
  bool complete_ = true;
  std::optional<SystemError> broken_;
};

}  // namespace

bool IsRequest(std::uint32_t code) noexcept {
  return code == request::VirtualServicesDump::kCode || code == request::DestinationsDump::kCode ||
         code == request::IpvsTimeoutsGet::kCode || code == request::IpvsInfoGet::kCode;
}

std::expected<Request, DecodeError> ReadRequest(Bytes buffer) {
  protocol::RecordReader reader(buffer);
  const auto record = reader.Next();
  if (!record) return std::unexpected(record.error());
  if (!reader.AtEnd()) return std::unexpected(DecodeError{"request", "buffer", "holds more"});
  switch (record->code) {
    case request::VirtualServicesDump::kCode:
      return ReadChecked<request::VirtualServicesDump>(record->payload);
    case request::DestinationsDump::kCode:
      return ReadChecked<request::DestinationsDump>(record->payload);
    case request::IpvsTimeoutsGet::kCode:
      return ReadChecked<request::IpvsTimeoutsGet>(record->payload);
    case request::IpvsInfoGet::kCode:
      return ReadChecked<request::IpvsInfoGet>(record->payload);
    default:
      return std::unexpected(DecodeError{"request", "code", "is not one of the schema"});
  }
}

wire::MessageWriter EncodeServicesDump(Route to) {
  return EncodeBare(IPVS_CMD_GET_SERVICE, NLM_F_DUMP, to);
}

wire::MessageWriter EncodeDestinationsDump(const ServiceKey& key, Route to) {
  wire::MessageWriter out;
  BeginMessage(out, to, IPVS_CMD_GET_DEST, NLM_F_DUMP);
  const auto service = out.BeginNest(IPVS_CMD_ATTR_SERVICE);
  PutKey(out, key);
  out.EndNest(service);
  out.EndMessage();
  return out;
}

Taken TakeService(std::uint8_t family, const wire::Message& message, protocol::RecordWriter& out) {
  const auto attributes = AttributesOf(message);
  if (!attributes) return std::unexpected(attributes.error());
  const auto service = DecodeService(*attributes);
  if (!service) return std::unexpected(service.error());
  if (family == AF_UNSPEC || family == service->family) out.Append(*service);
  return {};
}

Taken TakeDestination(const ServiceKey& key, const wire::Message& message,
                      protocol::RecordWriter& out) {
  const auto attributes = AttributesOf(message);
  if (!attributes) return std::unexpected(attributes.error());
  const auto destination = DecodeDestination(key, *attributes);
  if (!destination) return std::unexpected(destination.error());
  out.Append(*destination);
  return {};
}

std::expected<DumpOutcome, SystemError> RunRequest(wire::Socket& socket, std::uint16_t family_id,
                                                   const Request& request) {
  Dumper dumper(socket, family_id);
  std::visit(dumper, request);
  return dumper.Finish();
}

}  // namespace fairlead::ipvs
