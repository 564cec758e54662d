// Anything at all as entries of the kernel and as requests. Above all: no message may delete more
// than one entry.
#include <linux/in.h>
#include <linux/netfilter/nfnetlink_conntrack.h>
#include <sys/socket.h>

#include <cstdlib>

#include "conntrack/delete.h"
#include "conntrack/dump.h"
#include "fuzz.h"
#include "wire/dump_reader.h"

namespace fairlead::test {

namespace {

using conntrack::DeleteRequest;
using conntrack::DumpRequest;

void Require(bool condition) {
  if (!condition) std::abort();
}

/** Every message is whole and names the one tuple that it is about. */
void CheckDeletion(std::uint8_t family, std::span<const std::uint8_t> entries) {
  const auto out = conntrack::EncodeDelete(family, entries, 0xfffffff0);
  Require(!out.overflowed());
  wire::MessageReader messages(out.bytes());
  std::size_t count = 0;
  while (const auto message = messages.Next()) {
    ++count;
    const wire::AttrTable<CTA_MAX> table(message->payload.subspan(4));
    const wire::AttrTable<CTA_TUPLE_MAX> tuple(table.Bytes(CTA_TUPLE_ORIG));
    const wire::AttrTable<CTA_PROTO_MAX> protocol(tuple.Bytes(CTA_TUPLE_PROTO));
    Require(!table.malformed() && !tuple.malformed() && tuple.Has(CTA_TUPLE_IP));
    Require(protocol.Has(CTA_PROTO_NUM) && protocol.Has(CTA_PROTO_SRC_PORT) &&
            protocol.Has(CTA_PROTO_DST_PORT) && !table.Has(CTA_FILTER));
  }
  Require(!messages.malformed() && count == entries.size() / conntrack::PackedBytes(family));
}

void TakeRequests(std::span<const std::uint8_t> payload) {
  if (const auto request = protocol::Read<DumpRequest>(payload);
      request && conntrack::Check(*request)) {
    const auto out = conntrack::EncodeDump(*request, conntrack::KernelFilter::kWanted, 1);
    wire::MessageReader messages(out.bytes());
    Require(messages.Next().has_value() && !messages.Next().has_value());
  }
  if (const auto request = protocol::Read<DeleteRequest>(payload);
      request && conntrack::Check(*request)) {
    CheckDeletion(request->family, request->entries);
  }
}

void TakeEntries(const DumpRequest& request, std::span<const std::uint8_t> datagram) {
  ByteBuffer entries;
  wire::DumpReader reader(7, [&](const wire::Message& message) {
    return conntrack::TakeEntry(request, message, entries);
  });
  reader.Take(datagram);
  reader.Finish();
  Require(entries.size() % conntrack::PackedBytes(request.family) == 0);
  CheckDeletion(request.family, entries.bytes());
}

template <typename Record>
Bytes Payload(const Record& record) {
  protocol::RecordWriter out;
  out.Append(record);
  Bytes input(1);
  const auto payload = out.bytes().subspan(8);
  input.insert(input.end(), payload.begin(), payload.end());
  return input;
}

}  // namespace

// The first byte chooses family and protocol, the rest is a datagram and also a request.
std::vector<Bytes> Corpus() {
  const Bytes entry = FromHex(
      "00"
      "94000000 00010200 07000000 00000000 02000000"
      "34000180 14000180 08000100 0a000001 08000200 0a60000a"
      "1c000280 05000100 11000000 06000200 13880000 06000300 00350000"
      "34000280 14000180 08000100 0af40007 08000200 0a000001"
      "1c000280 05000100 11000000 06000200 14e90000 06000300 13880000"
      "08000300 0000000a 08000c00 01020304 06001200 00000000"
      "14000000 03000200 07000000 00000000 00000000");
  const Bytes entry6 = FromHex(
      "81"
      "ac000000 00010200 07000000 00000000 0a000000"
      "4c000180 2c000180 14000300 fd000000000000000000000000000001"
      "14000400 fd000000000000000000000000000010"
      "1c000280 05000100 84000000 06000200 13880000 06000300 00350000"
      "4c000280 2c000180 14000300 fd000000000000000000000000000010"
      "14000400 fd000000000000000000000000000001"
      "1c000280 05000100 84000000 06000200 00350000 06000300 13880000");
  const Bytes address = FromHex("0a60000a");
  const Bytes packed(72);
  return {entry, entry6, Payload(DumpRequest{AF_INET, IPPROTO_UDP, 0, 0, 2, address, 53}),
          Payload(DeleteRequest{AF_INET, packed})};
}

}  // namespace fairlead::test

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace fairlead;
  if (size == 0) return 0;
  const std::span<const std::uint8_t> input(data + 1, size - 1);
  test::DumpRequest request;
  request.family = (data[0] & 0x80) != 0 ? AF_INET6 : AF_INET;
  request.protocol = (data[0] & 1) != 0 ? IPPROTO_SCTP : IPPROTO_UDP;
  test::TakeEntries(request, input);
  test::TakeRequests(input);
  return 0;
}
