// Trace events of nf_tables, as Linux 6.18 has sent them.
#include <cstring>

#include "check.h"
#include "nftrace/event.h"
#include "protocol/ops.gen.h"
#include "samples.h"

namespace fairlead::test {

namespace {

using protocol::reply::NftraceEvent;

/** A rule that drops, in a chain at hook input of a table of both families. */
const char* const kDrop =
    "dc000000 110a0000 00000000 00000000 01000000 08000f00 00000002 08000400 00000003"
    "08000600 b383aeb9 11000200 66696c74 65725f49 4e505554 00000000 0e000100 66697265"
    "77616c6c 64000000 0c000300 00000000 00000003 0c000500 08000100 00000000 08000a00"
    "00000001 06000b00 03040000 18000800 4500003c e9084000 40063bc2 0af40005 0af40005"
    "18000900 91ee1f91 a3311c03 00000000 a002ffd7 16200000 12000700 00000000 00000000"
    "00000000 08000000 08001500 00000008 05001300 00000000 08001200 f0584e9c 08001400"
    "00000188";

/** A base chain of family ip that ends with its policy. */
const char* const kPolicy =
    "48000000 110a0000 00000000 00000000 02000000 08000f00 00000002 08000400 00000001"
    "08000600 cd933de9 08000200 6f757400 09000100 706c6179 00000000 08001000 00000001";

/** The records of a datagram, or nothing where it is refused. */
std::optional<Bytes> Taken(const Bytes& datagram) {
  protocol::RecordWriter out;
  wire::MessageReader reader(datagram);
  while (const auto message = reader.Next()) {
    if (!nftrace::TakeEvent(*message, out)) return std::nullopt;
  }
  return Bytes(out.bytes().begin(), out.bytes().end());
}

NftraceEvent Only(const Bytes& records) {
  protocol::RecordReader reader(records);
  return *protocol::Read<NftraceEvent>(reader.Next()->payload);
}

}  // namespace

TEST("the event of a rule says which rule, what it decided, and what the packet is") {
  const Bytes records = *Taken(FromHex(kDrop));
  const NftraceEvent event = Only(records);
  CHECK_EQUAL(event.id, 0xb383aeb9U);
  CHECK_EQUAL(event.type, 3U);
  CHECK_EQUAL(event.family, 1);
  CHECK_EQUAL(event.packet_family, 2);
  CHECK_EQUAL(event.table, "firewalld");
  CHECK_EQUAL(event.chain, "filter_INPUT");
  CHECK_EQUAL(event.rule, 3U);
  CHECK_EQUAL(event.verdict, 0);
  CHECK_EQUAL(event.policy, protocol::kUnknownIndex);
  CHECK_EQUAL(event.input_interface, 1U);
  CHECK_EQUAL(event.output_interface, 0U);
  CHECK_EQUAL(event.network_header.size(), 20U);
  CHECK_EQUAL(event.transport_header.size(), 20U);
  CHECK_EQUAL(event.transport_header[3], 0x91);
}

TEST("the event of a policy has no rule, and no headers") {
  const Bytes records = *Taken(FromHex(kPolicy));
  const NftraceEvent event = Only(records);
  CHECK_EQUAL(event.type, 1U);
  CHECK_EQUAL(event.rule, 0U);
  CHECK_EQUAL(event.policy, 1U);
  CHECK_EQUAL(event.chain, "out");
  CHECK(event.network_header.empty());
}

TEST("the event of a jump names its target") {
  // NFTA_TRACE_VERDICT { NFTA_VERDICT_CODE NFT_JUMP, NFTA_VERDICT_CHAIN services }
  const Bytes records = *Taken(
      FromHex("3c000000 110a0000 00000000 00000000 0a000000 08000400 00000003 1c000500"
              "08000100 fffffffd 0d000200 73657276 69636573 00000000 04000700"));
  const NftraceEvent event = Only(records);
  CHECK_EQUAL(event.verdict, -3);
  CHECK_EQUAL(event.target, "services");
  CHECK_EQUAL(event.family, 10);
}

TEST("messages of other kinds give nothing, and malformed ones are refused") {
  Bytes other = FromHex(kPolicy);
  other[4] = 0;
  CHECK(Taken(other)->empty());
  // An attribute that is longer than the message.
  Bytes malformed = FromHex(kPolicy);
  malformed[20] = 0xff;
  CHECK(!Taken(malformed));
  CHECK(!Taken(FromHex("12000000 110a0000 00000000 00000000 0200")));
}

}  // namespace fairlead::test
