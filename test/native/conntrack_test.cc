// Entries of connection tracking: native/conntrack.
#include <linux/in.h>
#include <linux/netfilter/nf_conntrack_tcp.h>
#include <linux/netfilter/nfnetlink_conntrack.h>
#include <linux/netlink.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <iterator>

#include "bytes/bytes_family.h"
#include "check.h"
#include "conntrack/conntrack_family.h"
#include "conntrack/delete.h"
#include "conntrack/dump.h"
#include "conntrack/message.h"
#include "wire/byte_order.h"
#include "wire/dump_reader.h"

namespace fairlead::test {

namespace reply = protocol::reply;
using conntrack::DeleteRequest;
using conntrack::DumpRequest;
using conntrack::KernelFilter;

namespace {

Bytes Copy(std::span<const std::uint8_t> bytes) { return Bytes(bytes.begin(), bytes.end()); }

// 10.0.0.1:5000 > 10.96.0.10:53, answered by 10.244.0.7:5353; zone 5, answered, id 0x01020304.
constexpr const char* kPacked =
    "0a000001 1388 0a60000a 0035 0af40007 14e9 0a000001 1388"
    "11 00 0500 0a000000 04030201";

/** The attributes of that entry as the kernel sends them; `zone`: CTA_ZONE or nothing. */
Bytes Attributes(const char* zone = "06001200 00050000") {
  return FromHex(std::string("34000180 14000180 08000100 0a000001 08000200 0a60000a"
                             "1c000280 05000100 11000000 06000200 13880000 06000300 00350000"
                             "34000280 14000180 08000100 0af40007 08000200 0a000001"
                             "1c000280 05000100 11000000 06000200 14e90000 06000300 13880000") +
                 zone + "08000300 0000000a 08000c00 01020304 08000b00 00000001");
}

Bytes Message(std::uint16_t type, const char* header, const Bytes& attributes) {
  wire::MessageWriter out;
  out.BeginMessage(type, NLM_F_MULTI, 7);
  Bytes payload = FromHex(header);
  payload.insert(payload.end(), attributes.begin(), attributes.end());
  out.PutFamilyHeader(payload);
  out.EndMessage();
  return Copy(out.bytes());
}

Bytes NewEntry(const Bytes& attributes) { return Message(0x0100, "02000000", attributes); }

const DumpRequest kUdpOfZone5{AF_INET, IPPROTO_UDP, 5, 0, 0, {}, 0};

/** The packed entries that a datagram gives, or what is wrong with it. */
Bytes Taken(const DumpRequest& request, const Bytes& datagram, std::string* words = nullptr) {
  ByteBuffer entries;
  wire::DumpReader reader(7, [&](const wire::Message& message) {
    return conntrack::TakeEntry(request, message, entries);
  });
  reader.Take(datagram);
  reader.TakeOverrun();
  if (words != nullptr) *words = reader.Finish().words;
  return Copy(entries.bytes());
}

/** That entry in the default zone with its bytes, 300 and 4,000, and others at an offset. */
Bytes Ended(std::size_t at = 0, const Bytes& others = {}) {
  Bytes attributes = Attributes(
      "1c000980 0c000100 00000000 00000003 0c000200 00000000 0000012c"
      "1c000a80 0c000100 00000000 00000002 0c000200 00000000 00000fa0");
  std::ranges::copy(others, attributes.begin() + static_cast<std::ptrdiff_t>(at));
  return attributes;
}

/** Where an event has the address of the endpoint; its port is 28 bytes behind. */
constexpr std::size_t kEndpoint = 64;

/** IPS_SEEN_REPLY and IPS_CONFIRMED, and also IPS_ASSURED. */
constexpr std::uint8_t kSeen = 0x0a;
constexpr std::uint8_t kAssured = 0x0e;

/** That entry when the kernel has timed it. `tcp_state`: of TCP; 0 = as it is. */
Bytes Timed(std::int64_t ms, std::uint8_t status = kSeen, std::uint8_t tcp_state = 0) {
  constexpr std::int64_t kStartNs = 1'000'000'000;
  Bytes attributes = Ended();
  Bytes more = FromHex("08000300 00000000 1c001480 0c000100 00000000 00000000 0c000200 00000000"
                       "00000000 10000480 0c000180 05000100 00000000");
  more[7] = status;
  wire::StoreBe(&more[16], static_cast<std::uint64_t>(kStartNs));
  wire::StoreBe(&more[28], static_cast<std::uint64_t>(kStartNs + ms * 1'000'000));
  more[48] = tcp_state;
  if (tcp_state != 0) attributes[32] = IPPROTO_TCP;
  attributes.insert(attributes.end(), more.begin(), more.end());
  return attributes;
}

/** The record when nothing was missed. */
constexpr const char* kNone = "ce000000 10000000 00000000 00000000 00000000 00000000";

/** The records about entries that ended. */
std::string Records(const std::vector<Bytes>& ended, std::uint32_t lost = 0,
                    const protocol::request::BytesRead& asked = {}) {
  bytes::Sums sums(asked);
  for (const Bytes& attributes : ended) {
    sums.Take(*wire::MessageReader(Message(0x0102, "02000000", attributes)).Next());
  }
  sums.Take(*wire::MessageReader(NewEntry(Ended())).Next());
  protocol::RecordWriter out;
  sums.Append(lost, out);
  return Hex(out.bytes());
}

}  // namespace

TEST("the bytes of ended connections are added up, if they were translated and have a zone of 0") {
  const std::string record = "cd000000 34000000 11000000 35000000 04000000 0a60000a 04000000 ";
  const std::string sum =
      " 58020000 00000000 401f0000 00000000 00000000 00000000 00000000 " + std::string(kNone);
  CHECK_EQUAL(Records({Ended(), Ended()}), record + "0af40007" + sum);
  Bytes same = Ended(kEndpoint, FromHex("0a60000a"));
  CHECK_EQUAL(Records({same, same}), record + "0a60000a" + sum);
  std::ranges::copy(FromHex("0035"), same.begin() + kEndpoint + 28);
  Bytes zoned = Ended();
  std::ranges::copy(FromHex("06001200 00050000"), std::back_inserter(zoned));
  CHECK_EQUAL(Records({same, zoned}), kNone);
  // 4 GiB more than that, in each direction.
  CHECK_EQUAL(Records({Ended(127, {1}), Ended(155, {1})}),
              record + "0af40007 58020000 01000000 401f0000 01000000" + sum.substr(36));
}

TEST("ended connections without counters, that make no sense, or without room are missed") {
  CHECK_EQUAL(Records({Attributes(""), Ended(0, {0x33})}, 5),
              "ce000000 10000000 07000000 00000000 00000000 00000000");
  std::vector<Bytes> many;
  for (unsigned i = 0; i < 65538; ++i) {
    const auto at = [&](unsigned shift) { return static_cast<std::uint8_t>(i % 65537 >> shift); };
    many.push_back(Ended(kEndpoint, {at(16), at(8), at(0)}));
  }
  const std::string all = Records(many);
  CHECK(all.find("04000000 00000007 58020000") < 99);
  CHECK_EQUAL(all.substr(all.size() - 36), " 01000000 00000000 00000000 00000000");
}

TEST("durations are counted between bounds, less the timer of the state in which an entry ended") {
  const Bytes bounds = FromHex("10270000 204e0000");
  Bytes timers(12 * 4);
  timers[TCP_CONNTRACK_TIME_WAIT * 4] = 120;
  timers[10 * 4] = 30;
  timers[11 * 4] = 180;
  protocol::request::BytesRead asked;
  asked.bounds = bounds;
  asked.timers = timers;
  const auto check = [&](const std::vector<Bytes>& ended, const char* durations, const char* ms) {
    CHECK_EQUAL(Records(ended, 0, asked).substr(9 * 12),
                "0c000000 " + std::string(durations) + " " + ms + " 00000000 " + kNone);
  };
  check({Timed(40'000), Timed(40'001)}, "01000000 01000000 00000000", "214e0000");
  check({Timed(29'000), Timed(50'001)}, "01000000 00000000 01000000", "214e0000");
  check({Timed(185'000, kAssured)}, "01000000 00000000 00000000", "88130000");
  const Bytes closed = Timed(121'000, kAssured, TCP_CONNTRACK_TIME_WAIT);
  const Bytes open = Timed(121'000, kAssured, TCP_CONNTRACK_ESTABLISHED);
  check({closed, open}, "01000000 00000000 01000000", "90dc0100");
  // The clock was set back.
  check({Timed(-1)}, "01000000 00000000 00000000", "00000000");
}

TEST("ended connections are told one by one, as many as are asked for, and how many others") {
  protocol::request::BytesRead asked;
  // Behind records with their bytes.
  const auto told = [&](const std::vector<Bytes>& ended) {
    const std::string all = Records(ended, 0, asked);
    const std::size_t first = all.find("cf000000 48000000");
    return all.substr(first == std::string::npos ? all.rfind("ce000000 10000000") : first);
  };
  const std::string flow =
      "cf000000 48000000 %s000000 04000000 0a000001 88130000 04000000 0a60000a 35000000 04000000 "
      "0af40007 e9140000 2c010000 00000000 a00f0000 00000000 ";
  const auto of = [&](const char* protocol, const char* rest) {
    return std::string(flow).replace(flow.find("%s"), 2, protocol) + rest + " 00000000 ";
  };
  CHECK_EQUAL(told({Ended()}), kNone);
  asked.flows = 2;
  CHECK_EQUAL(told({Ended()}), of("11", "00000000 00000000 00000000") + kNone);
  CHECK_EQUAL(told({Timed(9, kSeen)}), of("11", "00000000 01000000 09000000") + kNone);
  asked.failed = 1;
  CHECK_EQUAL(told({Ended()}), kNone);
  CHECK_EQUAL(told({Timed(9, kAssured, TCP_CONNTRACK_CLOSE)}), kNone);
  CHECK_EQUAL(told({Timed(9, 0)}), of("11", "02000000 01000000 09000000") + kNone);
  const Bytes refused = Timed(9, kSeen, TCP_CONNTRACK_CLOSE);
  const std::string reset = of("06", "01000000 01000000 09000000");
  CHECK_EQUAL(told({refused, refused}), reset + reset + kNone);
  CHECK_EQUAL(told({refused, refused, refused}),
              reset + reset + "ce000000 10000000 00000000 00000000 01000000 00000000");
  // Which ones is chance.
  asked.failed = 0;
  asked.flows = 1;
  std::map<std::string, int> counts;
  for (int i = 0; i < 1000; ++i) ++counts[told({Ended(), Timed(1), Timed(2)}).substr(9 * 17, 18)];
  CHECK_EQUAL(counts.size(), 3U);
  for (const auto& [record, count] : counts) CHECK(count > 200);
}

TEST("an entry of the kernel is packed, whatever other attributes it has") {
  CHECK_EQUAL(Taken(kUdpOfZone5, NewEntry(Attributes())), FromHex(kPacked));
}

TEST("an entry is left out when it is not what was asked for") {
  const Bytes datagram = NewEntry(Attributes());
  const Bytes other_address = FromHex("0a60000b");
  const Bytes address = FromHex("0a60000a");
  std::vector<DumpRequest> others(7, kUdpOfZone5);
  others[0].family = AF_INET6;
  others[1].protocol = IPPROTO_TCP;
  others[2].zone = 0;
  others[3].status_mask = 2;
  others[4].destination = other_address;
  others[5].port = 54;
  others[6].status = others[6].status_mask = 4;
  for (const DumpRequest& other : others) {
    std::string words;
    CHECK_EQUAL(Taken(other, datagram, &words), Bytes{});
    CHECK_EQUAL(words, "");
  }
  DumpRequest same = kUdpOfZone5;
  same.destination = address;
  same.port = 53;
  same.status = same.status_mask = 2;
  CHECK_EQUAL(Taken(same, datagram), FromHex(kPacked));
}

TEST("an entry with a zone in one direction only is of a foreign zone") {
  const Bytes attributes = FromHex(
      "3c000180 14000180 08000100 0a000001 08000200 0a60000a"
      "1c000280 05000100 11000000 06000200 13880000 06000300 00350000 06000300 00050000"
      "34000280 14000180 08000100 0af40007 08000200 0a000001"
      "1c000280 05000100 11000000 06000200 14e90000 06000300 13880000");
  for (const std::uint16_t zone : {std::uint16_t{0}, std::uint16_t{5}}) {
    DumpRequest request = kUdpOfZone5;
    request.zone = zone;
    CHECK_EQUAL(Taken(request, NewEntry(attributes)), Bytes{});
  }
}

TEST("an entry of a protocol without ports is left out, without complaint") {
  const Bytes icmp = FromHex(
      "2c000180 14000180 08000100 0a000001 08000200 0a60000a"
      "14000280 05000100 01000000 06000400 00010000"
      "2c000280 14000180 08000100 0a60000a 08000200 0a000001"
      "14000280 05000100 01000000 06000400 00010000");
  std::string words;
  CHECK_EQUAL(Taken(kUdpOfZone5, NewEntry(icmp), &words), Bytes{});
  CHECK_EQUAL(words, "");
}

TEST("an entry that lacks what every entry has is an error") {
  std::string words;
  Bytes attributes = Attributes();
  attributes.resize(0x34);
  Taken(kUdpOfZone5, NewEntry(attributes), &words);
  CHECK_EQUAL(words, "an entry lacks one of its tuples");
  Bytes short_address = Attributes();
  short_address[8] = 7;
  Taken(kUdpOfZone5, NewEntry(short_address), &words);
  CHECK_EQUAL(words, "an entry lacks one of its tuples");
  Bytes no_port = Attributes();
  no_port[0x24 + 2] = 7;
  Taken(kUdpOfZone5, NewEntry(no_port), &words);
  CHECK_EQUAL(words, "an entry lacks a port");
  Taken(kUdpOfZone5, Message(0x0100, "0200", {}), &words);
  CHECK_EQUAL(words, "an entry lacks one of its tuples");
}

TEST("a packed entry reads back as it was packed") {
  const Bytes packed = FromHex(kPacked);
  ByteBuffer again;
  conntrack::Pack(conntrack::Unpack(AF_INET, packed), again);
  CHECK_EQUAL(again.bytes(), packed);
}

TEST("a dump asks the kernel to filter all that it can") {
  const Bytes address = FromHex("0a60000a");
  const DumpRequest request{AF_INET, IPPROTO_UDP, 5, 0, 2, address, 53};
  CHECK_EQUAL(conntrack::EncodeDump(request, KernelFilter::kWanted, 7).bytes(),
              FromHex("5c000000 01010103 07000000 00000000 02000000"
                      "24000180 0c000180 08000200 0a60000a"
                      "14000280 05000100 11000000 06000300 00350000"
                      "0c001980 08000100 2a000000"
                      "08000300 00000000 08001a00 00000002"
                      "06001200 00050000"));
}

TEST("a dump never asks the kernel to filter by IPv6 address: it does the opposite") {
  const Bytes address = FromHex("fd000000000000000000000000000010");
  const DumpRequest request{AF_INET6, IPPROTO_UDP, 0, 0, 0, address, 53};
  CHECK_EQUAL(conntrack::EncodeDump(request, KernelFilter::kWanted, 7).bytes(),
              FromHex("40000000 01010103 07000000 00000000 0a000000"
                      "18000180 14000280 05000100 11000000 06000300 00350000"
                      "0c001980 08000100 28000000"
                      "06001200 00000000"));
}

TEST("a dump of a kernel that knows no filters asks for the family only") {
  CHECK_EQUAL(conntrack::EncodeDump(kUdpOfZone5, KernelFilter::kNone, 7).bytes(),
              FromHex("14000000 01010103 07000000 00000000 02000000"));
}

TEST("each entry of a deletion is a message with a number of its own") {
  Bytes packed = FromHex(kPacked);
  for (int i = 0; i < 2; ++i) packed.insert(packed.end(), packed.begin(), packed.begin() + 36);
  const auto out = conntrack::EncodeDelete(AF_INET, packed, 0xffffffff);
  wire::MessageReader messages(out.bytes());
  for (std::uint32_t i = 0; i < 3; ++i) CHECK_EQUAL(messages.Next()->sequence, 0xffffffff + i);
  CHECK(!messages.Next().has_value());
}

TEST("requests that make no sense are refused") {
  const auto field = [](auto request) -> std::string {
    const auto checked = conntrack::Check(request);
    return checked ? "" : checked.error().field;
  };
  DumpRequest request = kUdpOfZone5;
  CHECK_EQUAL(field(request), "");
  request.family = AF_UNSPEC;
  CHECK_EQUAL(field(request), "family");
  request = kUdpOfZone5;
  request.protocol = IPPROTO_ICMP;
  CHECK_EQUAL(field(request), "protocol");
  request = kUdpOfZone5;
  const Bytes short_address = FromHex("0a6000");
  request.destination = short_address;
  CHECK_EQUAL(field(request), "destination");
  request = kUdpOfZone5;
  request.status = 2;
  CHECK_EQUAL(field(request), "status");

  const Bytes packed = FromHex(kPacked);
  CHECK_EQUAL(field(DeleteRequest{AF_INET, packed}), "");
  CHECK_EQUAL(field(DeleteRequest{AF_INET, {}}), "");
  CHECK_EQUAL(field(DeleteRequest{AF_INET6, packed}), "entries");
  CHECK_EQUAL(field(DeleteRequest{AF_INET, std::span(packed).first(35)}), "entries");
  CHECK_EQUAL(field(DeleteRequest{AF_UNIX, packed}), "family");
}

TEST("the family answers buffers that it cannot read") {
  conntrack::ConntrackFamily family;
  CHECK(family.Handles(DumpRequest::kCode));
  CHECK(family.Handles(DeleteRequest::kCode));
  CHECK(!family.Handles(protocol::request::GenerationGet::kCode));
  protocol::RecordWriter out;
  out.Append(DumpRequest{AF_UNSPEC, IPPROTO_UDP, 0, 0, 0, {}, 0});
  const auto answer = family.Run(out.bytes(), 0);
  protocol::RecordReader reader(answer->bytes());
  const auto failed = protocol::Read<reply::Failed>(reader.Next()->payload);
  CHECK_EQUAL(failed->error, std::uint32_t{EINVAL});
  CHECK_EQUAL(failed->message, "conntrackDump.family is neither IPv4 nor IPv6");
}

}  // namespace fairlead::test
