// IPVS: native/ipvs, compared with bytes laid out by hand from linux/ip_vs.h.
#include <linux/in.h>
#include <linux/netlink.h>
#include <sys/socket.h>

#include "check.h"
#include "ipvs/decode.h"
#include "ipvs/dump.h"
#include "ipvs/family_id.h"
#include "ipvs/ops.h"

namespace fairlead::test {

namespace op = protocol::op;
namespace reply = protocol::reply;
namespace request = protocol::request;

namespace {

constexpr ipvs::Route kTo{0x1234, 7};

const Bytes kVip = FromHex("0a60000a");
const Bytes kVip6 = FromHex("fd960000000000000000000000000010");
const Bytes kServer = FromHex("0af40001");

template <typename Record>
Bytes Payload(const Record& record) {
  protocol::RecordWriter out;
  out.Append(record);
  return Bytes(out.bytes().begin() + 8, out.bytes().end());
}

/** The message of an op, or what is wrong with it. */
template <typename Op>
Bytes Encoded(const Op& op) {
  wire::MessageWriter out;
  const auto encoded = ipvs::EncodeOp(op, kTo, out);
  if (!encoded) Fail(__FILE__, __LINE__, encoded.error().problem);
  return Bytes(out.bytes().begin(), out.bytes().end());
}

template <typename Op>
std::string Refused(const Op& op) {
  wire::MessageWriter out;
  const auto encoded = ipvs::EncodeOp(op, kTo, out);
  return encoded ? "taken" : std::string(encoded.error().field);
}

// IPVS_SVC_ATTR_AF, _PROTOCOL, _ADDR, _PORT of TCP 10.96.0.10:80.
constexpr const char* kKey =
    "06000100 02000000 06000200 06000000"
    "14000300 0a60000a 00000000 00000000 00000000 06000400 00500000";

Bytes WithKey(const std::string& before, const std::string& after) {
  return FromHex(before + kKey + after);
}

op::VirtualServiceAdd Service() { return {AF_INET, IPPROTO_TCP, kVip, 80, "wrr", 0x11, 600, 24}; }

op::DestinationAdd Destination() {
  return {AF_INET, IPPROTO_TCP, kVip, 80, kServer, 8080, 3, 5, 9, 2};
}

}  // namespace

TEST("a virtual service is added with its key and all its settings") {
  CHECK_EQUAL(Encoded(Service()), WithKey("68000000 34120100 07000000 00000000 01010000 54000180",
                                          "08000600 77727200 0c000700 11000000 ffffffff"
                                          "08000800 58020000 08000900 ffffff00"));
}

TEST("the prefix of IPv6 clients is a number in host order") {
  const Bytes message =
      Encoded(op::VirtualServiceSet{AF_INET6, IPPROTO_UDP, kVip6, 53, "rr", 0, 0, 64});
  CHECK_EQUAL(std::span(message).last(8), FromHex("08000900 40000000"));
  CHECK_EQUAL(std::span(message).subspan(16, 4), FromHex("02010000"));
  CHECK_EQUAL(std::span(message).subspan(44, 16), kVip6);
}

TEST("a prefix may have any length that an address has") {
  for (const auto& [bits, mask] : {std::pair{0, "00000000"}, {1, "80000000"}, {32, "ffffffff"}}) {
    auto service = Service();
    service.prefix_length = static_cast<std::uint8_t>(bits);
    const Bytes message = Encoded(service);
    CHECK_EQUAL(std::span(message).last(4), FromHex(mask));
  }
}

TEST("a destination is added to the service that its key names") {
  CHECK_EQUAL(Encoded(Destination()),
              WithKey("8c000000 34120100 07000000 00000000 05010000 30000180",
                      "48000280 14000100 0af40001 00000000 00000000 00000000 06000200 1f900000"
                      "06000b00 02000000 08000300 03000000 08000400 05000000"
                      "08000500 09000000 08000600 02000000"));
}

TEST("a deletion names no more than the key") {
  CHECK_EQUAL(Encoded(op::VirtualServiceDelete{AF_INET, IPPROTO_TCP, kVip, 80}),
              WithKey("44000000 34120100 07000000 00000000 03010000 30000180", ""));
  CHECK_EQUAL(Encoded(op::DestinationDelete{AF_INET, IPPROTO_TCP, kVip, 80, kServer, 8080}),
              WithKey("6c000000 34120100 07000000 00000000 07010000 30000180",
                      "28000280 14000100 0af40001 00000000 00000000 00000000 06000200 1f900000"
                      "06000b00 02000000"));
}

TEST("timeouts are set for the whole namespace") {
  CHECK_EQUAL(Encoded(op::IpvsTimeoutsSet{900, 0, 300}),
              FromHex("2c000000 34120100 07000000 00000000 0c010000"
                      "08000400 84030000 08000500 00000000 08000600 2c010000"));
}

TEST("ops that make no sense are refused") {
  auto service = Service();
  service.family = AF_UNSPEC;
  CHECK_EQUAL(Refused(service), "family");
  service = Service();
  service.address = kVip6;
  CHECK_EQUAL(Refused(service), "address");
  service = Service();
  service.prefix_length = 33;
  CHECK_EQUAL(Refused(service), "prefixLength");
  service = Service();
  service.scheduler = "sixteen-letters-";
  CHECK_EQUAL(Refused(service), "scheduler");
  auto destination = Destination();
  destination.destination = std::span(kVip6).first(5);
  CHECK_EQUAL(Refused(destination), "destination");
  destination.destination = {};
  CHECK_EQUAL(Refused(destination), "destination");
}

TEST("the number of the family is asked for by name") {
  CHECK_EQUAL(ipvs::EncodeFamilyRequest(7).bytes(),
              FromHex("20000000 10000500 07000000 00000000 03010000 09000200 49505653 00000000"));
  CHECK_EQUAL(
      ipvs::DecodeFamilyId(FromHex("01020000 09000200 49505653 00000000 06000100 1c000000")),
      std::uint16_t{0x1c});
  CHECK_EQUAL(ipvs::DecodeFamilyId(FromHex("01020000 09000200 49505653 00000000")),
              std::uint16_t{0});
  CHECK_EQUAL(ipvs::DecodeFamilyId(FromHex("0102")), std::uint16_t{0});
}

TEST("a virtual service is read, with its totals and without the kernel's own flag") {
  const Bytes attributes = FromHex(
      "7c000180 06000100 02000000 06000200 06000000"
      "14000300 0a60000a 00000000 00000000 00000000 06000400 00500000"
      "08000600 77727200 0c000700 13000000 ffffffff 08000800 58020000 08000900 ffffff00"
      "28000c80 0c000100 05000000 00000000 0c000400 00000000 01000000"
      "0c000200 07000000 00000000");
  const auto service = ipvs::DecodeService(attributes);
  CHECK(service.has_value());
  reply::VirtualService expected{AF_INET, IPPROTO_TCP, kVip, 80, 0, "wrr", 0x11, 600, 24};
  expected.connections = 5;
  expected.in_packets = 7;
  expected.in_bytes = 0x100000000;
  CHECK_EQUAL(Payload(*service), Payload(expected));
}

TEST("a service of a firewall mark has no address") {
  const auto service = ipvs::DecodeService(
      FromHex("1c000180 06000100 0a000000 08000500 07000000 08000900 80000000"));
  CHECK(service.has_value());
  CHECK_EQUAL(service->firewall_mark, 7u);
  CHECK_EQUAL(service->prefix_length, 128);
  CHECK(service->address.empty());
}

TEST("a mask that is no prefix is told as such") {
  const auto service = ipvs::DecodeService(
      FromHex("1c000180 06000100 02000000 08000500 07000000 08000900 ff00ff00"));
  CHECK_EQUAL(service->prefix_length, 0xff);
}

TEST("a destination is read for the service that was asked about") {
  const Bytes attributes = FromHex(
      "70000280 14000100 0af40001 00000000 00000000 00000000 06000200 1f900000"
      "08000300 03000000 08000400 05000000 08000500 09000000 08000600 02000000"
      "08000700 0b000000 08000800 0c000000 08000900 0d000000 06000b00 02000000"
      "10000c80 0c000500 09000000 00000000");
  const auto found = ipvs::DecodeDestination({AF_INET, IPPROTO_TCP, kVip, 80}, attributes);
  CHECK(found.has_value());
  reply::Destination expected{AF_INET, IPPROTO_TCP, kVip, 80, kServer, 8080, 3,
                              5,       9,           2,    11, 12,      13};
  expected.out_bytes = 9;
  CHECK_EQUAL(Payload(*found), Payload(expected));
}

TEST("objects without an address are errors") {
  const auto words = [](const auto& decoded) -> std::string {
    return decoded ? "" : decoded.error();
  };
  CHECK_EQUAL(words(ipvs::DecodeService({})),
              "a virtual service has no address and no firewall mark");
  CHECK_EQUAL(words(ipvs::DecodeService(FromHex("14000180 06000100 02000000 08000300 0a600000"))),
              "");
  CHECK_EQUAL(words(ipvs::DecodeService(FromHex("14000180 06000100 0a000000 08000300 0a600000"))),
              "a virtual service has no address and no firewall mark");
  CHECK_EQUAL(words(ipvs::DecodeDestination({AF_INET, IPPROTO_TCP, kVip, 80}, {})),
              "a destination has no address");
  CHECK_EQUAL(words(ipvs::DecodeInfo({})), "IPVS does not report its version");
}

TEST("timeouts and version are read") {
  const auto timeouts =
      ipvs::DecodeTimeouts(FromHex("08000400 84030000 08000500 78000000 08000600 2c010000"));
  CHECK_EQUAL(Payload(*timeouts), Payload(reply::IpvsTimeouts{900, 120, 300}));
  const auto info = ipvs::DecodeInfo(FromHex("08000100 01020100 08000200 00100000"));
  CHECK_EQUAL(Payload(*info), Payload(reply::IpvsInfo{0x010201, 4096}));
}

TEST("a dump of destinations names the service") {
  CHECK_EQUAL(ipvs::EncodeDestinationsDump({AF_INET, IPPROTO_TCP, kVip, 80}, kTo).bytes(),
              WithKey("44000000 34120103 07000000 00000000 08010000 30000180", ""));
  CHECK_EQUAL(ipvs::EncodeServicesDump(kTo).bytes(),
              FromHex("14000000 34120103 07000000 00000000 04010000"));
}

TEST("requests that make no sense are refused") {
  const auto field = [](const auto& record) -> std::string {
    protocol::RecordWriter out;
    out.Append(record);
    const auto read = ipvs::ReadRequest(out.bytes());
    return read ? "" : read.error().field;
  };
  CHECK_EQUAL(field(request::VirtualServicesDump{0}), "");
  CHECK_EQUAL(field(request::VirtualServicesDump{AF_UNIX}), "family");
  CHECK_EQUAL(field(request::DestinationsDump{0, 0, {}, 0}), "");
  CHECK_EQUAL(field(request::DestinationsDump{AF_INET, IPPROTO_TCP, kVip, 80}), "");
  CHECK_EQUAL(field(request::DestinationsDump{AF_INET6, IPPROTO_TCP, kVip, 80}), "address");
  CHECK_EQUAL(field(request::LinkGet{"lo"}), "code");
}

}  // namespace fairlead::test
