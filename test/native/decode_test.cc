// Netlink to records: what the encoder wrote, and other messages that the kernel may send.
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>

#include <algorithm>
#include <cerrno>

#include "check.h"
#include "nft/dump.h"
#include "nft/elements.h"
#include "nft/expr/expressions.h"
#include "nft/userdata.h"
#include "samples.h"
#include "wire/attr_reader.h"
#include "wire/byte_order.h"

namespace fairlead::test {

namespace expression = protocol::expression;
namespace op = protocol::op;
namespace reply = protocol::reply;
namespace request = protocol::request;
namespace shape = protocol::element_shape;
using protocol::RecordReader;
using protocol::RecordWriter;

namespace {

constexpr std::uint32_t kSequence = 7;

/** The records that a dump of `asked` gives for the datagrams. */
Bytes Dump(const nft::Request& asked, const std::vector<Bytes>& datagrams) {
  nft::DumpDecoder decoder(asked, kSequence);
  for (const Bytes& datagram : datagrams) decoder.Take(datagram);
  const ByteBuffer records = decoder.Finish();
  return Bytes(records.bytes().begin(), records.bytes().end());
}

template <typename Record>
Bytes OneOp(const Record& record) {
  RecordWriter out;
  out.Append(record);
  return AsDump(Encoded(Bytes(out.bytes().begin(), out.bytes().end())), kSequence);
}

template <typename... Each>
Bytes Records(const Each&... records) {
  RecordWriter out;
  (out.Append(records), ...);
  return Bytes(out.bytes().begin(), out.bytes().end());
}

const reply::Dumped kGoodEnd{0, 0, 0, ""};

/** The end of a dump. */
reply::Dumped End(const Bytes& records) {
  RecordReader reader(records);
  reply::Dumped end;
  while (!reader.AtEnd()) {
    const auto record = reader.Next();
    if (record->code == reply::Dumped::kCode) end = *protocol::Read<reply::Dumped>(record->payload);
  }
  return end;
}

Bytes Message(std::uint16_t type, std::uint16_t flags, const char* payload) {
  wire::MessageWriter out;
  out.BeginMessage(type, flags, kSequence);
  out.PutFamilyHeader(FromHex(payload));
  out.EndMessage();
  return Bytes(out.bytes().begin(), out.bytes().end());
}

const Bytes kDone = Message(NLMSG_DONE, NLM_F_MULTI, "00000000");

/** NFT_MSG_NEWTABLE named t, read in this generation. */
Bytes Table(const char* generation) {
  return Message(0x0a00, NLM_F_MULTI,
                 (std::string("0200") + generation + "0600010074000000").c_str());
}

}  // namespace

TEST("every expression reads back exactly as it was written") {
  const Bytes all = EveryExpression();
  CHECK_EQUAL(Dump(request::RulesDump{2, "t", ""}, {OneOp(op::RuleAdd{2, "t", "c", all, "why"})}),
              Records(reply::Rule{2, "t", "c", 0, 0, all, "why"}, kGoodEnd));
}

TEST("an expression that no record can express is unknown, and the others stay") {
  const Bytes good = Records(expression::Counter{});
  wire::MessageWriter out;
  CHECK(nft::expr::Encode(good, out).has_value());
  // The list's content: the counter, then `ct` that sets, then an unknown name.
  Bytes list(out.bytes().begin() + 4, out.bytes().end());
  const Bytes more = FromHex(
      "20000180 07000100 63740000 14000280 08000200 00000003"
      "08000400 00000001"
      "0c000180 06000100 78000000");
  list.insert(list.end(), more.begin(), more.end());
  RecordWriter records;
  CHECK(nft::expr::Decode(list, records).has_value());
  CHECK_EQUAL(records.bytes(),
              Records(expression::Counter{}, expression::Unknown{"ct"}, expression::Unknown{"x"}));
}

TEST("a comment is strange to who did not ask for it") {
  const Bytes key = FromHex("0a000001");
  const Bytes commented = FromHex("0a000001 03000000 61626300");
  const Bytes datagram =
      OneOp(op::ElementsAdd{2, "t", "s", shape::kComment, 4, 0, 1, commented});
  CHECK_EQUAL(Dump(request::ElementsDump{2, "t", "s", 0, 4, 0}, {datagram}),
              Records(reply::Elements{2, "t", "s", 0, 4, 0, 1, key, 1}, kGoodEnd));
}

TEST("user data that is not a comment alone is strange to everyone") {
  const Bytes commented = FromHex("0a000001 03000000 61626300");
  Bytes datagram = OneOp(op::ElementsAdd{2, "t", "s", shape::kComment, 4, 0, 1, commented});
  const Bytes userdata = FromHex("0004 61626300");
  const auto found = std::search(datagram.begin(), datagram.end(), userdata.begin(),
                                 userdata.end());
  CHECK(found != datagram.end());
  // Another type than that of a comment.
  *found = 1;
  const Bytes without = FromHex("0a000001 00000000");
  CHECK_EQUAL(Dump(request::ElementsDump{2, "t", "s", shape::kComment, 4, 0}, {datagram}),
              Records(reply::Elements{2, "t", "s", shape::kComment, 4, 0, 1, without, 1},
                      kGoodEnd));
}

TEST("elements with what no entry holds are counted, those without a key only counted") {
  const Bytes entries = FromHex(
      "00000000 02000000 0b000001"
      "0a000002 00000000 0b000002");
  const std::uint32_t parts = shape::kFlags | shape::kData;
  const Bytes kept = FromHex("0a000002 00000000 0b000002");
  CHECK_EQUAL(Dump(request::ElementsDump{2, "t", "s", parts, 4, 4},
                   {OneOp(op::ElementsAdd{2, "t", "s", parts, 4, 4, 2, entries})}),
              Records(reply::Elements{2, "t", "s", parts, 4, 4, 1, kept, 1}, kGoodEnd));
}

TEST("what an element lacks reads as zero") {
  const Bytes key = FromHex("0a000001");
  const std::uint32_t parts = shape::kFlags | shape::kData;
  const Bytes filled = FromHex("0a000001 00000000 00000000");
  CHECK_EQUAL(Dump(request::ElementsDump{2, "t", "s", parts, 4, 4},
                   {OneOp(op::ElementsAdd{2, "t", "s", 0, 4, 0, 1, key})}),
              Records(reply::Elements{2, "t", "s", parts, 4, 4, 1, filled}, kGoodEnd));
}

TEST("a key or data of another length ends the dump with EPROTO, after what was good") {
  const Bytes entries = FromHex("0a000001 0b000001");
  const Bytes datagram = OneOp(op::ElementsAdd{2, "t", "s", shape::kData, 4, 4, 1, entries});
  const auto ask = [&](std::uint32_t parts, std::uint32_t key, std::uint32_t data) {
    return End(Dump(request::ElementsDump{2, "t", "s", parts, key, data}, {datagram}));
  };
  CHECK_EQUAL(ask(0, 4, 0).error, 0u);
  CHECK_EQUAL(ask(0, 8, 0).error, std::uint32_t{EPROTO});
  CHECK_EQUAL(ask(shape::kData, 4, 8).error, std::uint32_t{EPROTO});
  CHECK_EQUAL(ask(0, 65, 0).error, std::uint32_t{EPROTO});
}

TEST("the elements of all datagrams come by key, in one record") {
  const Bytes first = OneOp(op::ElementsAdd{2, "t", "s", shape::kData, 4, 4, 2,
                                            FromHex("0a000003 00000001 0a000001 00000002")});
  const Bytes second =
      OneOp(op::ElementsAdd{2, "t", "s", shape::kData, 4, 4, 1, FromHex("0a000002 00000003")});
  const Bytes part(first.begin(), first.end() - static_cast<std::ptrdiff_t>(kDone.size()));
  const Bytes sorted = FromHex("0a000001 00000002 0a000002 00000003 0a000003 00000001");
  CHECK_EQUAL(Dump(request::ElementsDump{2, "t", "s", shape::kData, 4, 4}, {part, second}),
              Records(reply::Elements{2, "t", "s", shape::kData, 4, 4, 3, sorted}, kGoodEnd));
}

TEST("an element that comes twice marks the dump as interrupted") {
  const Bytes once = FromHex("0a000001 0a000002");
  const Bytes twice = FromHex("0a000002 0a000001");
  const request::ElementsDump ask{2, "t", "s", 0, 4, 0};
  const Bytes first = OneOp(op::ElementsAdd{2, "t", "s", 0, 4, 0, 2, once});
  const Bytes second = OneOp(op::ElementsAdd{2, "t", "s", 0, 4, 0, 2, twice});
  CHECK_EQUAL(End(Dump(ask, {first})).interrupted, 0);
  // The first datagram without its end.
  const Bytes part(first.begin(), first.end() - static_cast<std::ptrdiff_t>(kDone.size()));
  CHECK_EQUAL(End(Dump(ask, {part, second})).interrupted, 1);
}

TEST("an address that ends one interval and starts another does not come twice") {
  const Bytes entries = FromHex("0a000001 01000000 0a000001 00000000");
  const request::ElementsDump ask{2, "t", "s", shape::kFlags, 4, 0};
  const Bytes datagram = OneOp(op::ElementsAdd{2, "t", "s", shape::kFlags, 4, 0, 2, entries});
  CHECK_EQUAL(End(Dump(ask, {datagram})).interrupted, 0);
}

TEST("a generation that changes between messages marks the dump as interrupted") {
  CHECK_EQUAL(End(Dump(request::TablesDump{2}, {Table("0001"), Table("0001"), kDone})).interrupted,
              0);
  CHECK_EQUAL(End(Dump(request::TablesDump{2}, {Table("0001"), Table("0002"), kDone})).interrupted,
              1);
}

TEST("the kernel's own mark of an interrupted dump is passed on") {
  const Bytes end = Message(NLMSG_DONE, NLM_F_MULTI | NLM_F_DUMP_INTR, "00000000");
  CHECK_EQUAL(End(Dump(request::TablesDump{2}, {Table("0001"), end})).interrupted, 1);
}

TEST("an error ends a dump with its number and words") {
  const Bytes absent =
      Message(NLMSG_ERROR, NLM_F_CAPPED, "feffffff 140000000a0a0103 07000000 00000000");
  CHECK_EQUAL(Dump(request::SetsDump{2, "t"}, {absent}),
              Records(reply::Dumped{0, 0, ENOENT, "No such file or directory"}));
  const Bytes late = Message(NLMSG_DONE, NLM_F_MULTI, "fcffffff");
  CHECK_EQUAL(End(Dump(request::TablesDump{2}, {Table("0001"), late})).error, std::uint32_t{EINTR});
}

TEST("a dump that does not end says so") {
  CHECK_EQUAL(Dump(request::TablesDump{2}, {Table("0001")}),
              Records(reply::Table{2, "t", 0, 0, 0, ""},
                      reply::Dumped{0, 0, ETIMEDOUT, "the kernel did not end its answer"}));
}

TEST("messages to others, of other kinds and after the end are skipped") {
  nft::DumpDecoder decoder(request::TablesDump{2}, kSequence + 1);
  decoder.Take(Table("0001"));
  decoder.Take(kDone);
  CHECK(!decoder.done());
  const Bytes chain = OneOp(op::ChainAdd{2, "t", "c", ""});
  CHECK_EQUAL(Dump(request::TablesDump{2}, {chain, Table("0001")}), Records(kGoodEnd));
}

TEST("malformed messages of the kernel give EPROTO") {
  CHECK_EQUAL(End(Dump(request::TablesDump{2}, {FromHex("0a000000"), kDone})).error,
              std::uint32_t{EPROTO});
  CHECK_EQUAL(End(Dump(request::TablesDump{2}, {Message(0x0a00, 0, ""), kDone})).error,
              std::uint32_t{EPROTO});
  const Bytes attribute = Message(0x0a00, 0, "02000000 ff000100");
  CHECK_EQUAL(End(Dump(request::TablesDump{2}, {attribute, kDone})).error, std::uint32_t{EPROTO});
}

TEST("the comment is found among other user data, and damaged data has none") {
  CHECK_EQUAL(nft::ReadComment(FromHex("0304 00000000 0004 77687900"), 0), "why");
  CHECK_EQUAL(nft::ReadComment(FromHex("0304 00000000"), 0), "");
  CHECK_EQUAL(nft::ReadComment(FromHex("0005 77687900"), 0), "");
  CHECK_EQUAL(nft::ReadComment(FromHex("00"), 0), "");
}

}  // namespace fairlead::test
