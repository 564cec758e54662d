// Links and addresses: what native/route refuses and leaves out. What it writes and reads, ip(8)
// shows (test/conformance).
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include "check.h"
#include "route/address_events.h"
#include "route/dump.h"
#include "route/link.h"
#include "route/message.h"
#include "route/ops.h"

namespace fairlead::test {

namespace op = protocol::op;
namespace reply = protocol::reply;
namespace request = protocol::request;

namespace {

const Bytes kTwo = FromHex("0a60000a 0a60000b");

template <typename Record>
Bytes Payload(const Record& record) {
  protocol::RecordWriter out;
  out.Append(record);
  return Bytes(out.bytes().begin() + 8, out.bytes().end());
}

template <typename Op>
Bytes EncodedLink(const Op& op) {
  wire::MessageWriter out;
  const auto encoded = route::LinkEncoder()(op, 7, out);
  if (!encoded) return {};
  return Bytes(out.bytes().begin(), out.bytes().end());
}

template <typename Op>
std::string RefusedAddresses(const Op& op) {
  const Bytes payload = Payload(op);
  const auto read = route::ReadAddresses({Op::kCode, payload});
  return read ? "taken" : read.error().field;
}

Bytes Datagram(std::uint16_t type, const char* payload) {
  wire::MessageWriter out;
  out.BeginMessage(type, NLM_F_MULTI, 7);
  out.PutFamilyHeader(FromHex(payload));
  out.EndMessage();
  return Bytes(out.bytes().begin(), out.bytes().end());
}

wire::Message Parsed(const Bytes& datagram) { return *wire::MessageReader(datagram).Next(); }

/** The records that RTM_NEWADDR gives, or what is wrong with it. */
std::string Taken(std::uint8_t family, std::uint32_t index, const char* payload) {
  const Bytes datagram = Datagram(RTM_NEWADDR, payload);
  protocol::RecordWriter out;
  const auto taken = route::TakeAddress(family, index, Parsed(datagram), out);
  return taken ? Hex(out.bytes()) : taken.error();
}

// ifaddrmsg, IFA_ADDRESS 10.0.0.1, IFA_LOCAL 10.0.0.2, IFA_FLAGS.
constexpr const char* kAddress =
    "02188000 03000000 08000100 0a000001 08000200 0a000002 08000800 80020000";

}  // namespace

TEST("names that no link may have are refused, an empty one above all") {
  CHECK_EQUAL(EncodedLink(op::LinkDelete{""}), Bytes{});
  CHECK_EQUAL(EncodedLink(op::LinkAdd{"sixteen-letters-", "dummy"}), Bytes{});
  CHECK_EQUAL(EncodedLink(op::LinkAdd{"vips", ""}), Bytes{});
}

TEST("addresses that make no sense are refused") {
  CHECK_EQUAL(RefusedAddresses(op::AddressesAdd{AF_UNSPEC, "vips", 0, 32, kTwo, 0}), "family");
  CHECK_EQUAL(RefusedAddresses(op::AddressesAdd{AF_INET, "vips", 0, 33, kTwo, 0}), "prefixLength");
  CHECK_EQUAL(RefusedAddresses(op::AddressesAdd{AF_INET6, "vips", 0, 128, kTwo, 0}), "addresses");
  CHECK_EQUAL(RefusedAddresses(op::AddressesDelete{AF_INET, "", 0, 32, kTwo}), "link");
  CHECK_EQUAL(RefusedAddresses(op::AddressesDelete{AF_INET, "sixteen-letters-", 1, 32, kTwo}),
              "link");
  CHECK_EQUAL(RefusedAddresses(op::TableDelete{2, "t"}), "code");
}

TEST("a link is asked for by name, without its counters") {
  CHECK_EQUAL(route::EncodeLinkGet("lo", 7).bytes(),
              FromHex("30000000 12000500 07000000 00000000"
                      "00000000 00000000 00000000 00000000 07000300 6c6f0000 08001d00 08000000"));
}

TEST("an address is read: the local one, not its peer") {
  protocol::RecordWriter out;
  const Bytes local = FromHex("0a000002");
  out.Append(reply::Address{AF_INET, 3, local, 24, 0x280, 0});
  CHECK_EQUAL(Taken(AF_UNSPEC, 0, kAddress), Hex(out.bytes()));
  CHECK_EQUAL(Taken(AF_INET, 3, kAddress), Hex(out.bytes()));
}

TEST("an address is left out when it is not what was asked for") {
  CHECK_EQUAL(Taken(AF_INET6, 0, kAddress), "");
  CHECK_EQUAL(Taken(AF_INET, 4, kAddress), "");
  CHECK_EQUAL(Taken(AF_UNSPEC, 0, "1c188000 03000000"), "");
}

TEST("an address of a wrong length is an error") {
  CHECK_EQUAL(Taken(0, 0, "0a8080fd 03000000 08000100 fd000000"),
              "an address has the length of another family");
  CHECK_EQUAL(Taken(0, 0, "02"), "the kernel sent a short message");
}

TEST("a neighbour is read if the kernel asks for it in vain") {
  const auto taken = [](const char* payload) -> std::string {
    const Bytes datagram = Datagram(RTM_NEWNEIGH, payload);
    protocol::RecordWriter out;
    const auto read = route::TakeDeadNeighbour(Parsed(datagram), out);
    return read ? Hex(out.bytes()) : read.error();
  };
  protocol::RecordWriter dead;
  const Bytes address = FromHex("0a000001");
  dead.Append(reply::DeadNeighbour{3, address});
  // ndmsg: NUD_FAILED, NUD_INCOMPLETE, NUD_STALE; NDA_DST.
  CHECK_EQUAL(taken("02000000 03000000 20000001 08000100 0a000001"), Hex(dead.bytes()));
  CHECK_EQUAL(taken("02000000 03000000 01000001 08000100 0a000001"), Hex(dead.bytes()));
  CHECK_EQUAL(taken("02000000 03000000 04000001 08000100 0a000001"), "");
  CHECK_EQUAL(taken("07000000 03000000 20000001 08000100 0a000001"), "");
  CHECK_EQUAL(taken("0a000000 03000000 20000001 08000100 0a000001"),
              "a neighbour has an address of another family");
}

TEST("requests about links that make no sense are refused") {
  const auto field = [](const auto& record) -> std::string {
    protocol::RecordWriter out;
    out.Append(record);
    const auto read = route::ReadRequest(out.bytes());
    return read ? "" : read.error().field;
  };
  CHECK_EQUAL(field(request::LinkGet{"lo"}), "");
  CHECK_EQUAL(field(request::LinkGet{""}), "link");
  CHECK_EQUAL(field(request::AddressesDump{0, ""}), "");
  CHECK_EQUAL(field(request::AddressesDump{AF_UNIX, ""}), "family");
  CHECK_EQUAL(field(request::AddressesDump{AF_INET, "sixteen-letters-"}), "link");
}

TEST("notifications that tell of addresses") {
  // ifaddrmsg: family, prefix, flags, scope, index.
  CHECK(route::TellsOfAddresses(Datagram(RTM_NEWADDR, "02 18 80 00 03000000")));
  CHECK(route::TellsOfAddresses(Datagram(RTM_DELADDR, "0a 40 80 00 03000000")));
  CHECK(!route::TellsOfAddresses(Datagram(RTM_NEWADDR, "0a 40 80 fd 03000000")));
  CHECK(route::TellsOfAddresses(Datagram(RTM_NEWADDR, "02 10 80 fd 03000000")));
  // ifinfomsg: family, padding, type, index, flags, change.
  CHECK(route::TellsOfAddresses(Datagram(RTM_NEWLINK, "00 00 0100 03000000 43100100 01000000")));
  CHECK(route::TellsOfAddresses(Datagram(RTM_NEWLINK, "00 00 0100 03000000 43100100 40000000")));
  CHECK(!route::TellsOfAddresses(Datagram(RTM_NEWLINK, "00 00 0100 03000000 43100100 00010000")));
  CHECK(route::TellsOfAddresses(Datagram(RTM_DELLINK, "00 00 0100 03000000 02100000 ffffffff")));
  CHECK(!route::TellsOfAddresses(Datagram(RTM_NEWROUTE, "02 18 80 00 03000000")));
  Bytes two = Datagram(RTM_NEWADDR, "02 18 80 00 03000000");
  const Bytes other = Datagram(RTM_NEWROUTE, "02 18 80 00 03000000");
  two.insert(two.end(), other.begin(), other.end());
  CHECK(route::TellsOfAddresses(two));
  CHECK(!route::TellsOfAddresses(FromHex("1400000014")));
}

}  // namespace fairlead::test
