// Ops to netlink: how native/nft divides and numbers messages, and what it refuses. What an op
// means to the kernel, nft(8) shows (test/conformance).
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>

#include <cerrno>

#include "check.h"
#include "nft/batch.h"
#include "nft/dump.h"
#include "nft/echo.h"
#include "nft/elements.h"
#include "nft/userdata.h"
#include "samples.h"
#include "wire/attr_reader.h"
#include "wire/byte_order.h"

namespace fairlead::test {

namespace expression = protocol::expression;
namespace op = protocol::op;
namespace shape = protocol::element_shape;
using protocol::kUnknownIndex;
using protocol::RecordWriter;

namespace {

template <typename... Records>
Bytes Ops(const Records&... records) {
  RecordWriter out;
  (out.Append(records), ...);
  return Bytes(out.bytes().begin(), out.bytes().end());
}

/** The attributes of the only op's message, without headers. */
Bytes Attributes(const Bytes& ops) {
  const Bytes batch = Encoded(ops);
  wire::MessageReader messages(batch);
  messages.Next();
  const auto message = messages.Next();
  const auto attributes = message->payload.subspan(sizeof(nfgenmsg));
  return Bytes(attributes.begin(), attributes.end());
}

std::string Refusal(const Bytes& ops) {
  const auto batch = nft::EncodeBatch(ops, 1);
  if (batch) return "taken";
  const auto& [reason, entry, index] = batch.error();
  const std::string at = entry == kUnknownIndex ? "" : " entry " + std::to_string(entry);
  return "op " + std::to_string(index) + at + ": " + protocol::Words(reason);
}

}  // namespace

TEST("a batch is begun, ended and numbered, and its last op asks for an acknowledgement") {
  const Bytes ops = Ops(op::TableDelete{2, "t"}, op::TableDelete{10, "u"});
  const auto batch = nft::EncodeBatch(ops, 100);
  CHECK_EQUAL(batch->bytes(), FromHex("14000000 10000100 64000000 00000000 0000000a"
                                      "1c000000 020a0100 65000000 00000000 02000000"
                                      "06000100 74000000"
                                      "1c000000 020a0500 66000000 00000000 0a000000"
                                      "06000100 75000000"
                                      "14000000 11000100 67000000 00000000 0000000a"));
  CHECK_EQUAL(batch->origins().size(), std::size_t{4});
  CHECK_EQUAL(batch->origins()[0].op, kUnknownIndex);
  CHECK_EQUAL(batch->origins()[2].op, 1u);
}

TEST("a rule among others says where it goes, and asks for its handle only if the op does") {
  const auto flags = [](const auto& op) {
    const Bytes batch = Encoded(Ops(op));
    wire::MessageReader messages(batch);
    messages.Next();
    return static_cast<unsigned>(messages.Next()->flags) & ~unsigned{NLM_F_REQUEST | NLM_F_ACK};
  };
  CHECK_EQUAL(flags(op::XtRuleAdd{2, "t", "c", 0, 0, 0, {}}), NLM_F_CREATE | NLM_F_APPEND);
  CHECK_EQUAL(flags(op::XtRuleInsert{2, "t", "c", 0, 0, 0, {}}), unsigned{NLM_F_CREATE});
  CHECK_EQUAL(flags(op::XtRuleInsert{2, "t", "c", 0, 0, 1, {}}), NLM_F_CREATE | NLM_F_ECHO);
}

TEST("echoes become handles of the ops that asked; other messages are skipped") {
  const Bytes ops =
      Ops(op::TableAdd{2, "t", ""}, op::XtRuleAdd{2, "t", "c", 0, 0, 1, {}},
          op::XtRuleAdd{2, "t", "c", 0, 0, 0, {}}, op::XtRuleInsert{2, "t", "c", 0, 0, 1, {}});
  const auto batch = nft::EncodeBatch(ops, 100);
  CHECK_EQUAL(batch->echoes(), 2u);
  wire::MessageWriter datagram;
  const auto echo = [&datagram](int type, std::uint32_t sequence, std::uint64_t handle) {
    wire::BeginNfnetlink(datagram, nft::MessageType(type), 0, 2, sequence);
    if (handle != 0) datagram.PutU64Be(NFTA_RULE_HANDLE, handle);
    datagram.EndMessage();
  };
  nft::EchoCollector echoes(100, *batch);
  echo(NFT_MSG_NEWRULE, 102, 41);
  echo(NFT_MSG_NEWTABLE, 101, 7);
  echo(NFT_MSG_NEWRULE, 99, 8);
  echo(NFT_MSG_NEWRULE, 106, 9);
  echo(NFT_MSG_NEWRULE, 104, 0);
  echoes.Take(datagram.bytes());
  CHECK(!echoes.complete());
  echoes.Take(datagram.bytes().first(7));
  wire::MessageWriter last;
  wire::BeginNfnetlink(last, nft::MessageType(NFT_MSG_NEWRULE), 0, 2, 104);
  last.PutU64Be(NFTA_RULE_HANDLE, 42);
  last.EndMessage();
  echoes.Take(last.bytes());
  CHECK(echoes.complete());
  RecordWriter actual;
  echoes.Write(actual);
  RecordWriter expected;
  expected.Append(protocol::reply::RuleHandle{1, 41});
  expected.Append(protocol::reply::RuleHandle{3, 42});
  CHECK_EQUAL(actual.bytes(), expected.bytes());
}

TEST("the echo of a deleted rule says what it has counted, and may be missing") {
  const Bytes ops = Ops(op::TableAdd{2, "t", ""}, op::RuleDelete{2, "t", "c", 8, 1},
                        op::RuleDelete{2, "t", "c", 9, 1});
  const auto batch = nft::EncodeBatch(ops, 100);
  CHECK_EQUAL(batch->echoes(), 2u);
  nft::EchoCollector echoes(100, *batch);
  CHECK(echoes.complete());
  wire::MessageWriter datagram;
  wire::BeginNfnetlink(datagram, nft::MessageType(NFT_MSG_DELRULE), 0, 2, 102);
  datagram.PutU64Be(NFTA_RULE_HANDLE, 8);
  const auto list = datagram.BeginNest(NFTA_RULE_EXPRESSIONS);
  const auto element = datagram.BeginNest(NFTA_LIST_ELEM);
  datagram.PutString(NFTA_EXPR_NAME, "counter");
  const auto data = datagram.BeginNest(NFTA_EXPR_DATA);
  datagram.PutU64Be(NFTA_COUNTER_PACKETS, 7);
  datagram.EndNest(data);
  datagram.EndNest(element);
  datagram.EndNest(list);
  datagram.EndMessage();
  echoes.Take(datagram.bytes());
  RecordWriter actual;
  echoes.Write(actual);
  RecordWriter counter;
  counter.Append(protocol::expression::Counter{});
  RecordWriter expected;
  expected.Append(protocol::reply::RuleGone{1, 7, counter.bytes()});
  CHECK_EQUAL(actual.bytes(), expected.bytes());
}

TEST("a comment that does not fit its length byte is refused with its entry") {
  const auto encode = [](std::uint8_t length) {
    Bytes entries = FromHex("0a000001 00000000");
    entries[4] = length;
    entries.insert(entries.end(), 256, 'x');
    entries.resize(8u + ((length + 3u) & ~3u));
    return nft::EncodeBatch(
        Ops(op::ElementsAdd{2, "t", "s", shape::kComment, 4, 0, 1, entries}), 1);
  };
  CHECK(encode(253).has_value());
  CHECK(!encode(254).has_value());
}

TEST("a base chain may leave the policy of the one that is there") {
  const auto attributes =
      Attributes(Ops(op::BaseChainAdd{2, "t", "b", "nat", 4, -100, protocol::kKeepPolicy, ""}));
  const wire::AttrTable<NFTA_CHAIN_MAX> chain(attributes);
  CHECK(chain.Has(NFTA_CHAIN_HOOK));
  CHECK(!chain.Has(NFTA_CHAIN_POLICY));
}

TEST("a deletion carries only what finds the element") {
  const Bytes entries = FromHex("0a000001 01000000 0b000001");
  const std::uint32_t parts = shape::kFlags | shape::kData;
  CHECK_EQUAL(Attributes(Ops(op::ElementsDelete{2, "t", "s", parts, 4, 4, 1, entries})),
              FromHex("06000100 74000000 06000200 73000000"
                      "1c000380 18000180"
                      "0c000180 08000100 0a000001"
                      "08000300 00000001"));
}

TEST("many elements of one op go into messages as full as they can be") {
  const auto batch = nft::EncodeBatch(ManyElements(5000), 1);
  // An element takes 28 bytes: 2,340 of them fill the 65,535 of the list.
  CHECK_EQUAL(batch->origins().size(), std::size_t{5});
  CHECK_EQUAL(batch->origins()[1].first_entry, 0u);
  CHECK_EQUAL(batch->origins()[2].first_entry, 2340u);
  CHECK_EQUAL(batch->origins()[3].first_entry, 4680u);
  for (const std::size_t message : {1, 2, 3}) CHECK_EQUAL(batch->origins()[message].op, 0u);
}

TEST("the offset of a refused element leads to its index, any other to none") {
  const auto batch = nft::EncodeBatch(ManyElements(10), 1);
  const auto message = batch->Message(1);
  // nlmsghdr, nfgenmsg, table, set, the list's header; then 28 bytes each.
  constexpr std::uint32_t kFirst = 16 + 4 + 8 + 8 + 4;
  CHECK_EQUAL(nft::ElementAt(message, kFirst), 0u);
  CHECK_EQUAL(nft::ElementAt(message, kFirst + 9 * 28), 9u);
  CHECK_EQUAL(nft::ElementAt(message, kFirst + 1), kUnknownIndex);
  CHECK_EQUAL(nft::ElementAt(message, 0), kUnknownIndex);
  CHECK_EQUAL(nft::ElementAt(message, 0xffffffff), kUnknownIndex);
  CHECK_EQUAL(nft::ElementAt(message.first(10), kFirst), kUnknownIndex);
}

TEST("bad ops are refused with their index and the reason") {
  const op::TableDelete good{2, "t"};
  const Bytes entries = FromHex("0a000001 0a000002 0a");
  CHECK_EQUAL(Refusal(Ops(good, op::ElementsAdd{2, "t", "s", 0, 4, 0, 3, entries})),
              "op 1 entry 2: elements.entries is shorter than its count says");
  CHECK_EQUAL(Refusal(Ops(op::ElementsAdd{2, "t", "s", 0, 4, 0, 1, entries})),
              "op 0: elements.entries is longer than its count says");
  CHECK_EQUAL(Refusal(Ops(op::ElementsAdd{2, "t", "s", 256, 4, 0, 0, {}})),
              "op 0: elements.shape has an unknown part");
  CHECK_EQUAL(Refusal(Ops(expression::Unknown{"x"})), "op 0: op.code is not one of the schema");
  const std::string name(70000, 'n');
  CHECK_EQUAL(Refusal(Ops(op::TableDelete{2, name})), "op 0: op.attribute is longer than 64 KiB");
  const Bytes key(70000);
  CHECK_EQUAL(Refusal(Ops(op::ElementsAdd{2, "t", "s", 0, 70000, 0, 1, key})),
              "op 0 entry 0: elements.entries has an entry over 64 KiB");
  const Bytes expressions = FromHex("03000000 00000000");
  CHECK_EQUAL(Refusal(Ops(op::RuleAdd{2, "t", "c", expressions, ""})),
              "op 0: cmp.register is truncated");
  CHECK_EQUAL(Refusal(Ops(op::TableAdd{2, "t", std::string(254, 'c')})),
              "op 0: comment.text is longer than 253 bytes");
}

TEST("a huge count with few entries is refused, not believed") {
  const Bytes entries = FromHex("0a000001");
  CHECK_EQUAL(Refusal(Ops(op::ElementsAdd{2, "t", "s", 0, 4, 0, 0xffffffff, entries})),
              "op 0 entry 1: elements.entries is shorter than its count says");
}

TEST("entries of no bytes end at their count, which is bounded by what fits a message") {
  const auto batch = nft::EncodeBatch(Ops(op::ElementsAdd{2, "t", "s", 0, 0, 0, 9, {}}), 1);
  CHECK_EQUAL(Refusal(Ops(op::ElementsAdd{2, "t", "s", 0, 0, 0, 0xffffffff, {}})),
              "op 0: elements.keyLength is zero");
  CHECK(!batch.has_value());
}

TEST("every sample op encodes to messages that read back") {
  const Bytes batch = Encoded(EveryOp());
  CHECK(!batch.empty());
  wire::MessageReader messages(batch);
  int count = 0;
  while (const auto message = messages.Next()) {
    ++count;
    wire::AttrReader attributes(message->payload.subspan(sizeof(nfgenmsg)));
    while (attributes.Next()) {
    }
    CHECK(!attributes.malformed());
  }
  CHECK(!messages.malformed());
  // Begin; table and chains, a set, elements, rules and objects, deletions, flowtables; end.
  CHECK_EQUAL(count, 1 + 3 + 1 + 5 + 6 + 5 + 3 + 1);
}

}  // namespace fairlead::test
