// Anything at all as ops, requests and kernel answers of IPVS and of links. Above all: no message
// may delete more than the one object that it names.
#include <linux/in.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include <cstdlib>

#include "base/address_bytes.h"
#include "fuzz.h"
#include "ipvs/decode.h"
#include "ipvs/dump.h"
#include "ipvs/family_id.h"
#include "ipvs/ops.h"
#include "protocol/one_of.h"
#include "route/dump.h"
#include "route/link.h"
#include "route/message.h"
#include "route/ops.h"
#include "wire/dump_reader.h"

namespace fairlead::test {

namespace {

namespace op = protocol::op;
using Input = std::span<const std::uint8_t>;

constexpr std::size_t kEntriesMax = 64;

void Require(bool condition) {
  if (!condition) std::abort();
}

/** The only message of `out`, which must be whole. */
wire::Message Only(const wire::MessageWriter& out) {
  Require(!out.overflowed());
  wire::MessageReader reader(out.bytes());
  const auto message = reader.Next();
  Require(message.has_value() && !reader.Next().has_value() && !reader.malformed());
  return *message;
}

/** Every message names its service with a whole key, or sets timeouts. */
void TakeIpvsOp(const protocol::Record& record) {
  const auto op = protocol::ReadOneOf<ipvs::Op>(record, "op");
  wire::MessageWriter out;
  if (!op || !ipvs::EncodeOp(*op, {0x1c, 7}, out)) return;
  const wire::Message message = Only(out);
  const wire::AttrTable<IPVS_CMD_ATTR_MAX> command(message.payload.subspan(GENL_HDRLEN));
  Require(!command.malformed());
  if (message.payload[0] == IPVS_CMD_SET_CONFIG) return;
  const wire::AttrTable<IPVS_SVC_ATTR_MAX> service(command.Bytes(IPVS_CMD_ATTR_SERVICE));
  Require(!service.malformed() && service.Bytes(IPVS_SVC_ATTR_ADDR).size() == 16);
  Require(service.Has(IPVS_SVC_ATTR_AF) && service.Has(IPVS_SVC_ATTR_PORT));
  Require(message.payload[0] != IPVS_CMD_FLUSH && message.payload[0] != IPVS_CMD_ZERO);
}

/** Every message about a link names it. */
void TakeLinkOp(const protocol::Record& record) {
  const auto op = protocol::ReadOneOf<route::LinkOp>(record, "op");
  wire::MessageWriter out;
  const auto encode = [&](const auto& each) { return route::LinkEncoder()(each, 7, out); };
  if (!op || !std::visit(encode, *op)) return;
  const wire::Message message = Only(out);
  const wire::AttrTable<IFLA_LINKINFO> attributes(message.payload.subspan(sizeof(ifinfomsg)));
  Require(!attributes.malformed() && route::IsLinkName(attributes.String(IFLA_IFNAME)));
}

/** Every message about an address names it: else the kernel would take the first of the link. */
void TakeAddresses(const protocol::Record& record) {
  const auto op = route::ReadAddresses(record);
  if (!op) return;
  for (std::size_t entry = 0; entry < op->count() && entry < kEntriesMax; ++entry) {
    wire::MessageWriter out;
    route::EncodeAddress(*op, entry, 3, 7, out);
    const wire::Message message = Only(out);
    const wire::AttrTable<IFA_FLAGS> attributes(message.payload.subspan(sizeof(ifaddrmsg)));
    const std::size_t length = AddressBytes(message.payload[0]);
    Require(length != 0 && attributes.Bytes(IFA_LOCAL).size() == length &&
            attributes.Bytes(IFA_ADDRESS).size() == length);
  }
}

void TakeOps(Input buffer) {
  protocol::RecordReader reader(buffer);
  while (!reader.AtEnd()) {
    const auto record = reader.Next();
    if (!record) return;
    TakeIpvsOp(*record);
    TakeLinkOp(*record);
    TakeAddresses(*record);
  }
}

void TakeRequests(Input buffer) {
  if (buffer.empty()) return;
  static_cast<void>(ipvs::ReadRequest(buffer));
  static_cast<void>(route::ReadRequest(buffer));
}

/** Records of the type R, which must be readable. */
template <typename R>
void CheckRecords(const protocol::RecordWriter& out) {
  protocol::RecordReader reader(out.bytes());
  while (!reader.AtEnd()) {
    const auto record = reader.Next();
    Require(record && record->code == R::kCode && protocol::Read<R>(record->payload).has_value());
  }
}

template <typename R, typename Take>
void TakeAnswers(Input datagram, Take take) {
  protocol::RecordWriter out;
  wire::DumpReader reader(7, [&](const wire::Message& message) { return take(message, out); });
  reader.Take(datagram);
  reader.Finish();
  CheckRecords<R>(out);
}

void TakeAnswers(Input datagram) {
  const Bytes vip(4);
  const ipvs::ServiceKey key{AF_INET, IPPROTO_TCP, vip, 80};
  TakeAnswers<protocol::reply::VirtualService>(
      datagram, [](const wire::Message& message, protocol::RecordWriter& out) {
        return ipvs::TakeService(AF_UNSPEC, message, out);
      });
  TakeAnswers<protocol::reply::Destination>(
      datagram, [&](const wire::Message& message, protocol::RecordWriter& out) {
        return ipvs::TakeDestination(key, message, out);
      });
  TakeAnswers<protocol::reply::Address>(
      datagram, [](const wire::Message& message, protocol::RecordWriter& out) {
        return route::TakeAddress(AF_UNSPEC, 0, message, out);
      });
  TakeAnswers<protocol::reply::DeadNeighbour>(datagram, route::TakeDeadNeighbour);
  wire::MessageReader messages(datagram);
  while (const auto message = messages.Next()) {
    static_cast<void>(route::DecodeLink(*message));
    static_cast<void>(ipvs::DecodeFamilyId(message->payload));
    static_cast<void>(ipvs::DecodeTimeouts(message->payload));
    static_cast<void>(ipvs::DecodeInfo(message->payload));
  }
}

template <typename... Records>
Bytes Sample(std::uint8_t sort, const Records&... records) {
  protocol::RecordWriter out;
  (out.Append(records), ...);
  Bytes sample{sort};
  sample.insert(sample.end(), out.bytes().begin(), out.bytes().end());
  return sample;
}

}  // namespace

std::vector<Bytes> Corpus() {
  const Bytes vip = FromHex("0a60000a");
  const Bytes vip6 = FromHex("fd960000000000000000000000000010");
  const Bytes two = FromHex("0a60000a0a60000b");
  return {
      Sample(0, op::VirtualServiceAdd{AF_INET, IPPROTO_TCP, vip, 80, "wrr", 1, 600, 24},
             op::DestinationAdd{AF_INET, IPPROTO_TCP, vip, 80, vip6, 8080, 2, 5, 9, 2},
             op::IpvsTimeoutsSet{900, 0, 300}),
      Sample(0, op::DestinationDelete{AF_INET6, IPPROTO_UDP, vip6, 53, vip6, 53},
             op::VirtualServiceDelete{AF_INET6, IPPROTO_UDP, vip6, 53}),
      Sample(0, op::LinkAdd{"vips", "dummy"},
             op::AddressesAdd{AF_INET, "vips", 0, 32, two, 2},
             op::AddressesDelete{AF_INET, "", 3, 32, two}, op::LinkDelete{"vips"}),
      Sample(1, protocol::request::DestinationsDump{AF_INET, IPPROTO_TCP, vip, 80}),
      Sample(1, protocol::request::AddressesDump{AF_INET, "vips"}),
      // A service, a destination, an address and a link, as the kernel sends them.
      FromHex("02 70000000 1c000200 07000000 00000000 01010000 5c000180 06000100 02000000"
              "06000200 06000000 14000300 0a60000a 00000000 00000000 00000000 06000400 00500000"
              "08000600 77727200 0c000700 13000000 ffffffff 08000900 ffffff00"
              "14000c80 0c000100 05000000 00000000"
              "30000000 1c000200 07000000 00000000 05010000 1c000280"
              "14000100 0af40001 00000000 00000000 00000000"
              "30000000 14000200 07000000 00000000 02188000 03000000"
              "08000100 0a000001 08000200 0a000002 08000800 80020000"),
      FromHex("02 38000000 10000200 07000000 00000000 00000100 05000000 c1000000 00000000"
              "09000300 76697073 00000000 0c001280 08000100 766c616e"),
  };
}

}  // namespace fairlead::test

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace fairlead;
  if (size == 0) return 0;
  const std::span<const std::uint8_t> input(data + 1, size - 1);
  if (data[0] % 3 == 0) test::TakeOps(input);
  if (data[0] % 3 == 1) test::TakeRequests(input);
  if (data[0] % 3 == 2) test::TakeAnswers(input);
  return 0;
}
