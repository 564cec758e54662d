// IPVS: what native/ipvs refuses. What it writes and reads, ipvsadm shows (test/conformance).
#include <linux/in.h>
#include <sys/socket.h>

#include "check.h"
#include "ipvs/decode.h"
#include "ipvs/dump.h"
#include "ipvs/ops.h"

namespace fairlead::test {

namespace op = protocol::op;
namespace request = protocol::request;

namespace {

constexpr ipvs::Route kTo{0x1234, 7};

const Bytes kVip = FromHex("0a60000a");
const Bytes kVip6 = FromHex("fd960000000000000000000000000010");
const Bytes kServer = FromHex("0af40001");

template <typename Op>
std::string Refused(const Op& op) {
  wire::MessageWriter out;
  const auto encoded = ipvs::EncodeOp(op, kTo, out);
  return encoded ? "taken" : std::string(encoded.error().field);
}

op::VirtualServiceAdd Service() { return {AF_INET, IPPROTO_TCP, kVip, 80, "wrr", 0x11, 600, 24}; }

op::DestinationAdd Destination() {
  return {AF_INET, IPPROTO_TCP, kVip, 80, kServer, 8080, 3, 5, 9, 2};
}

}  // namespace

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
