#include "ipvs/dump.h"

#include <sys/socket.h>

#include <optional>
#include <string>
#include <utility>

#include "base/address_bytes.h"
#include "ipvs/decode.h"
#include "protocol/dump_answer.h"
#include "protocol/one_of.h"

namespace fairlead::ipvs {

namespace request = protocol::request;
using protocol::BadRecord;
using protocol::Checked;

namespace {

using Bytes = std::span<const std::uint8_t>;

/** A message without attributes. `flags`: NLM_F_DUMP, or NLM_F_ACK for a single answer. */
wire::MessageWriter EncodeBare(int command, int flags, Route to) {
  wire::MessageWriter out;
  BeginMessage(out, to, command, flags);
  out.EndMessage();
  return out;
}

Checked Check(const request::VirtualServicesDump& dump) noexcept {
  if (dump.family == AF_UNSPEC || AddressBytes(dump.family) != 0) return {};
  return std::unexpected(BadRecord{dump.kName, "family", "is neither IPv4 nor IPv6 nor both"});
}

Checked Check(const request::DestinationsDump& dump) noexcept {
  if (dump.address.empty()) return Check(request::VirtualServicesDump{dump.family});
  if (AddressBytes(dump.family) == dump.address.size()) return {};
  return std::unexpected(BadRecord{dump.kName, "address", "is not an address of the family"});
}

Checked Check(const auto&) noexcept { return {}; }

/** Appends the record that `decode` makes of the attributes after genlmsghdr. */
template <typename Decode>
wire::Taken Take(const wire::Message& message, protocol::RecordWriter& out, Decode decode) {
  const auto attributes = wire::AttributesOf(message, GENL_HDRLEN);
  if (!attributes) return std::unexpected(attributes.error());
  const auto reply = decode(*attributes);
  if (!reply) return std::unexpected(reply.error());
  out.Append(*reply);
  return {};
}

/** Runs requests on one socket and keeps how they ended. */
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
    // The kernel dumps the destinations of one service at a time.
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
        [&](const wire::Message& message) { return Take(message, out_, DecodeTimeouts); });
  }

  void operator()(const request::IpvsInfoGet&) {
    Ask(EncodeBare(IPVS_CMD_GET_INFO, NLM_F_ACK, Next()),
        [&](const wire::Message& message) { return Take(message, out_, DecodeInfo); });
  }

  std::expected<ByteBuffer, SystemError> Finish() {
    if (broken_) return std::unexpected(std::move(*broken_));
    return protocol::EndDump(end_, std::move(out_));
  }

 private:
  Route Next() const { return {family_id_, socket_.next_sequence()}; }

  bool ended_well() const noexcept { return !broken_ && !socket_.out_of_step() && end_.error == 0; }

  void Destinations(const ServiceKey& key) {
    Ask(EncodeDestinationsDump(key, Next()),
        [&](const wire::Message& message) { return TakeDestination(key, message, out_); });
  }

  void Ask(const wire::MessageWriter& message, wire::DumpReader::TakeObject take) {
    auto end = wire::Ask(socket_, message, std::move(take));
    if (!end) {
      broken_ = end.error();
      return;
    }
    end->interrupted = end->interrupted || end_.interrupted;
    end_ = std::move(*end);
  }

  wire::Socket& socket_;
  std::uint16_t family_id_;
  protocol::RecordWriter out_;
  wire::DumpEnd end_;
  std::optional<SystemError> broken_;
};

}  // namespace

std::expected<Request, BadRecord> ReadRequest(Bytes buffer) {
  return protocol::ReadRequest<Request>(buffer, [](const auto& request) { return Check(request); });
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

wire::Taken TakeService(std::uint8_t family, const wire::Message& message,
                        protocol::RecordWriter& out) {
  const auto attributes = wire::AttributesOf(message, GENL_HDRLEN);
  if (!attributes) return std::unexpected(attributes.error());
  const auto service = DecodeService(*attributes);
  if (!service) return std::unexpected(service.error());
  if (family == AF_UNSPEC || family == service->family) out.Append(*service);
  return {};
}

wire::Taken TakeDestination(const ServiceKey& key, const wire::Message& message,
                            protocol::RecordWriter& out) {
  return Take(message, out, [&](Bytes attributes) { return DecodeDestination(key, attributes); });
}

std::expected<ByteBuffer, SystemError> RunRequest(wire::Socket& socket, std::uint16_t family_id,
                                                  const Request& request) {
  Dumper dumper(socket, family_id);
  std::visit(dumper, request);
  return dumper.Finish();
}

}  // namespace fairlead::ipvs
