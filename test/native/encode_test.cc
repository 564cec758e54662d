// Ops to netlink: native/nft, compared with bytes laid out by hand from the kernel's headers.
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

TEST("a table that is owned outlives its socket, one that is borrowed does not") {
  CHECK_EQUAL(Attributes(Ops(op::TableOwn{2, "t", ""})),
              FromHex("06000100 74000000 08000200 00000006"));
  CHECK_EQUAL(Attributes(Ops(op::TableBorrow{2, "t", ""})),
              FromHex("06000100 74000000 08000200 00000002"));
}

TEST("a base chain has its hook, policy and type") {
  CHECK_EQUAL(Attributes(Ops(op::BaseChainAdd{2, "t", "b", "nat", 4, -100, 1, ""})),
              FromHex("06000100 74000000"
                      "06000300 62000000"
                      "14000480 08000100 00000004 08000200 ffffff9c"
                      "08000500 00000001"
                      "08000700 6e617400"));
}

TEST("a comment is user data of type 0 with its NUL; that of a set has type 7") {
  CHECK_EQUAL(Attributes(Ops(op::TableAdd{2, "t", "why"})), FromHex("06000100 74000000"
                                                                    "0a000600 00047768 79000000"));
  const Bytes set = Attributes(Ops(op::SetAdd{2, "t", "s", 0, 7, 4, 0, 0, 0, 0, 0, "why"}));
  CHECK_EQUAL(std::span(set).last(12), FromHex("0a000d00 07047768 79000000"));
}

TEST("keys that are names of devices are said to be text, before the comment") {
  const Bytes set = Attributes(Ops(op::SetAdd{2, "t", "s", 0, 41, 16, 0, 0, 0, 0, 0, "why"}));
  CHECK_EQUAL(std::span(set).last(16), FromHex("10000d00 00040100 00000704 77687900"));
  const Bytes bare = Attributes(Ops(op::SetAdd{2, "t", "s", 0, 41, 16, 0, 0, 0, 0, 0, ""}));
  CHECK_EQUAL(std::span(bare).last(12), FromHex("0a000d00 00040100 00000000"));
}

TEST("a map has a description of its size") {
  const op::SetAdd set{2, "t", "s", NFT_SET_MAP, 7, 8, 7, 4, 1000, 50, 0, ""};
  CHECK_EQUAL(Attributes(Ops(set)),
              FromHex("06000100 74000000 06000200 73000000"
                      "08000300 00000008 08000400 00000007 08000500 00000008"
                      "08000600 00000007 08000700 00000004"
                      "08000a00 00000001"
                      "0c000b00 00000000 000003e8"
                      "0c000980 08000100 00000032"));
}

TEST("a verdict map has no length of data") {
  const op::SetAdd set{2, "t", "s", NFT_SET_MAP, 7, 4, NFT_DATA_VERDICT, 0, 0, 0, 0, ""};
  const wire::AttrTable<NFTA_SET_MAX> table(Attributes(Ops(set)));
  CHECK(table.Has(NFTA_SET_DATA_TYPE));
  CHECK(!table.Has(NFTA_SET_DATA_LEN));
}

TEST("a rule is a list of named expressions") {
  RecordWriter expressions;
  const Bytes port = FromHex("0050");
  expressions.Append(expression::Cmp{1, NFT_CMP_EQ, port});
  expressions.Append(expression::ImmediateVerdict{NFT_GOTO, "c"});
  CHECK_EQUAL(Attributes(Ops(op::RuleAdd{2, "t", "b", expressions.bytes(), ""})),
              FromHex("06000100 74000000 06000200 62000000"
                      "68000480"
                      "2c000180 08000100 636d7000"
                      "20000280 08000100 00000001 08000200 00000000"
                      "0c000380 06000100 00500000"
                      "38000180 0e000100 696d6d65 64696174 65000000"
                      "24000280 08000100 00000000"
                      "18000280 14000280 08000100 fffffffc 06000200 63000000"));
}

TEST("a match has its name, revision and structure; the rule its neighbour and protocol") {
  RecordWriter expressions;
  const Bytes info = FromHex("0000ffff 0000ffff");
  expressions.Append(expression::Match{"tcp", 0, info});
  expressions.Append(expression::Target{"MARK", 2, info});
  CHECK_EQUAL(Attributes(Ops(op::XtRuleAdd{2, "t", "b", 7, 6, 0, expressions.bytes()})),
              FromHex("06000100 74000000 06000200 62000000"
                      "0c000600 00000000 00000007"
                      "68000480"
                      "30000180 0a000100 6d617463 68000000"
                      "20000280 08000100 74637000 08000200 00000000"
                      "0c000300 0000ffff 0000ffff"
                      "34000180 0b000100 74617267 65740000"
                      "24000280 09000100 4d41524b 00000000 08000200 00000002"
                      "0c000300 0000ffff 0000ffff"
                      "14000580 08000100 00000006 08000200 00000000"));
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

TEST("a base chain may leave the policy of the one that is there") {
  const auto attributes =
      Attributes(Ops(op::BaseChainAdd{2, "t", "b", "nat", 4, -100, protocol::kKeepPolicy, ""}));
  const wire::AttrTable<NFTA_CHAIN_MAX> chain(attributes);
  CHECK(chain.Has(NFTA_CHAIN_HOOK));
  CHECK(!chain.Has(NFTA_CHAIN_POLICY));
}

TEST("elements carry their key, flags and data") {
  const Bytes entries = FromHex("0a000001 00000000 0b000001");
  const std::uint32_t parts = shape::kFlags | shape::kData;
  CHECK_EQUAL(Attributes(Ops(op::ElementsAdd{2, "t", "s", parts, 4, 4, 1, entries})),
              FromHex("06000100 74000000 06000200 73000000"
                      "20000380 1c000180"
                      "0c000180 08000100 0a000001"
                      "0c000280 08000100 0b000001"));
}

TEST("elements carry their comment as nft has it") {
  const Bytes entries = FromHex("0a000001 00000000 00000000 05000000 6e732f61 62000000");
  const std::uint32_t parts = shape::kVerdict | shape::kComment;
  CHECK_EQUAL(Attributes(Ops(op::ElementsAdd{2, "t", "s", parts, 4, 0, 1, entries})),
              FromHex("06000100 74000000 06000200 73000000"
                      "30000380 2c000180"
                      "0c000180 08000100 0a000001"
                      "10000280 0c000280 08000100 00000000"
                      "0c000600 0006 6e732f616200"));
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

TEST("a request is one message") {
  const std::vector<Bytes> requests = EveryRequest();
  const auto rules = nft::ReadRequest(requests[3]);
  CHECK_EQUAL(nft::EncodeRequest(*rules, 5).bytes(),
              FromHex("24000000 070a0103 05000000 00000000 02000000"
                      "06000100 74000000 06000200 63000000"));
  const auto generation = nft::ReadRequest(requests[0]);
  CHECK_EQUAL(nft::EncodeRequest(*generation, 6).bytes(),
              FromHex("14000000 100a0500 06000000 00000000 00000000"));
}

}  // namespace fairlead::test
