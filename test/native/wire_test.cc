// Messages and attributes: native/wire.
#include <linux/netlink.h>

#include "check.h"
#include "wire/ack_collector.h"
#include "wire/attr_reader.h"
#include "wire/byte_order.h"
#include "wire/message_writer.h"
#include "wire/trace.h"

namespace fairlead::test {

using wire::AttrReader;
using wire::MessageReader;
using wire::MessageWriter;

namespace {

/** A message with one nested attribute. */
MessageWriter Example() {
  MessageWriter out;
  out.BeginMessage(0x0a03, NLM_F_REQUEST, 7);
  out.PutFamilyHeader(FromHex("02000000"));
  out.PutString(1, "ab");
  const auto nest = out.BeginNest(2);
  out.PutU32Be(1, 0x01020304);
  out.PutU16Be(2, 0x0506);
  out.EndNest(nest);
  out.EndMessage();
  return out;
}

/** NLMSG_ERROR: error, header of the refused message, extended attributes. */
Bytes Refusal(std::int32_t error, std::uint32_t sequence, std::string_view words) {
  MessageWriter out;
  const bool extended = !words.empty();
  out.BeginMessage(NLMSG_ERROR, extended ? NLM_F_CAPPED | NLM_F_ACK_TLVS : NLM_F_CAPPED, sequence);
  Bytes body(4 + NLMSG_HDRLEN);
  wire::StoreHost(body.data(), error);
  wire::StoreHost(body.data() + 4, std::uint32_t{64});
  out.PutFamilyHeader(body);
  if (extended) {
    out.PutString(NLMSGERR_ATTR_MSG, words);
    out.PutU32Host(NLMSGERR_ATTR_OFFS, 48);
  }
  out.EndMessage();
  const auto bytes = out.bytes();
  return Bytes(bytes.begin(), bytes.end());
}

}  // namespace

TEST("a message is a header, a family header and padded attributes") {
  CHECK_EQUAL(Example().bytes(), FromHex("30000000 030a0100 07000000 00000000"
                                         "02000000"
                                         "07000100 61620000"
                                         "14000280"
                                         "08000100 01020304"
                                         "06000200 05060000"));
}

TEST("numbers go out in the order that their writer names") {
  MessageWriter out;
  out.PutU8(1, 0xab);
  out.PutU64Be(2, 0x0102030405060708);
  out.PutU32Host(3, 0x01020304);
  CHECK_EQUAL(out.bytes(), FromHex("05000100 ab000000"
                                   "0c000200 01020304 05060708"
                                   "08000300 04030201"));
}

TEST("an attribute of 65,535 bytes fits, one more does not") {
  const Bytes longest(MessageWriter::kAttributeBytesMax - NLA_HDRLEN);
  MessageWriter fits;
  fits.PutBytes(1, longest);
  CHECK(!fits.overflowed());
  CHECK_EQUAL(fits.size(), std::size_t{65536});

  MessageWriter overflows;
  overflows.PutBytes(1, Bytes(longest.size() + 1));
  CHECK(overflows.overflowed());
}

TEST("a nest that grows beyond 65,535 bytes overflows, and stays so") {
  MessageWriter out;
  const auto nest = out.BeginNest(1);
  for (int i = 0; i < 3; ++i) out.PutBytes(1, Bytes(30000));
  out.EndNest(nest);
  CHECK(out.overflowed());
  out.PutU8(1, 1);
  CHECK(out.overflowed());
}

TEST("flags can be added to a message that is already written") {
  MessageWriter out = Example();
  out.AddFlags(0, NLM_F_ACK);
  CHECK_EQUAL(out.bytes().subspan(6, 2), FromHex("0500"));
}

TEST("what was written reads back") {
  const MessageWriter out = Example();
  MessageReader messages(out.bytes());
  const auto message = messages.Next();
  CHECK(message.has_value());
  CHECK_EQUAL(message->type, 0x0a03);
  CHECK_EQUAL(message->sequence, 7u);
  const wire::AttrTable<2> table(message->payload.subspan(4));
  CHECK_EQUAL(table.String(1), "ab");
  const wire::AttrTable<2> nested(table.Bytes(2));
  CHECK_EQUAL(nested.U32Be(1), 0x01020304u);
  CHECK(!messages.Next().has_value());
  CHECK(!messages.malformed());
}

TEST("a message cut off anywhere is malformed, and nothing beyond its end is read") {
  const MessageWriter out = Example();
  for (std::size_t length = 1; length < out.size(); ++length) {
    // A copy of exactly that length: the sanitizer sees a read beyond it.
    const Bytes cut(out.bytes().begin(), out.bytes().begin() + static_cast<std::ptrdiff_t>(length));
    MessageReader messages(cut);
    CHECK(!messages.Next().has_value());
    CHECK(messages.malformed());
  }
}

TEST("attributes cut off anywhere are malformed") {
  const Bytes whole = FromHex("07000100 61620000 08000200 01020304");
  for (std::size_t length = 0; length <= whole.size(); ++length) {
    const Bytes cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length));
    AttrReader reader(cut);
    while (reader.Next()) {
    }
    // The padding of the last attribute may be missing.
    const bool complete = length == 0 || length == 7 || length == 8 || length == 16;
    CHECK_EQUAL(reader.malformed(), !complete);
  }
}

TEST("an attribute shorter than its own header is malformed") {
  for (const char* digits : {"00000100", "03000100", "ffff0100"}) {
    const Bytes bytes = FromHex(digits);
    AttrReader reader(bytes);
    CHECK(!reader.Next().has_value());
    CHECK(reader.malformed());
  }
}

TEST("numbers of missing or short attributes read as the fallback") {
  const Bytes bytes = FromHex("06000100 00010000");
  const wire::AttrTable<2> table(bytes);
  CHECK_EQUAL(table.U32Be(1, 77), 77u);
  CHECK_EQUAL(table.U64Be(2, 78), 78u);
  CHECK_EQUAL(table.String(2), "");
  CHECK(table.Has(1));
  CHECK(!table.Has(2));
}

TEST("a string ends at its first NUL, or with its attribute") {
  CHECK_EQUAL(wire::ReadString(FromHex("61006200")), "a");
  CHECK_EQUAL(wire::ReadString(FromHex("6162")), "ab");
  CHECK_EQUAL(wire::ReadString({}), "");
}

TEST("refusals carry the index of their message, the words and the offset") {
  wire::AckCollector answers(100, 10);
  answers.Take(Refusal(-2, 103, "no such table"));
  answers.Take(Refusal(-17, 105, ""));
  answers.Take(Refusal(0, 109, ""));
  CHECK_EQUAL(answers.refusals().size(), std::size_t{2});
  CHECK_EQUAL(answers.refusals()[0].message, 3u);
  CHECK_EQUAL(answers.refusals()[0].words, "no such table");
  CHECK_EQUAL(answers.refusals()[0].offset.value_or(0), 48u);
  CHECK_EQUAL(answers.refusals()[1].error, 17);
  CHECK_EQUAL(answers.refusals()[1].words, "File exists");
  CHECK(!answers.refusals()[1].offset.has_value());
  CHECK(answers.Answered(3));
  CHECK(answers.Answered(9));
  CHECK(!answers.Answered(4));
}

TEST("answers to other messages are skipped, also when the numbers wrap") {
  wire::AckCollector answers(0xfffffffe, 4);
  answers.Take(Refusal(-1, 0xfffffffd, ""));
  answers.Take(Refusal(-1, 2, ""));
  CHECK(answers.refusals().empty());
  answers.Take(Refusal(-1, 1, ""));
  CHECK_EQUAL(answers.refusals()[0].message, 3u);
}

TEST("an answer of no kernel error is a protocol error, not an overflow") {
  for (const std::int32_t error : {INT32_MIN, -4096}) {
    wire::AckCollector answers(1, 1);
    answers.Take(Refusal(error, 1, ""));
    CHECK_EQUAL(answers.refusals()[0].error, EPROTO);
  }
}

TEST("a trace is one line for each message, with nesting and text") {
  CHECK_EQUAL(wire::TraceLines("->", Example().bytes(), 4),
              "-> type 0xa03 flags 0x1 seq 7 len 48 1:\"ab\" 2:{1:01020304 2:0506}\n");
  CHECK_EQUAL(wire::TraceLines("<-", Refusal(-2, 9, "no such table"), 4),
              "<- type 0x2 flags 0x300 seq 9 len 64 error no such table at offset 48\n");
  CHECK_EQUAL(wire::TraceLines("<-", Refusal(0, 9, ""), 4),
              "<- type 0x2 flags 0x100 seq 9 len 36 ok\n");
}

TEST("a long line of a trace is cut") {
  MessageWriter out;
  out.BeginMessage(0x0a03, 0, 1);
  out.PutFamilyHeader(FromHex("02000000"));
  for (int i = 0; i < 100; ++i) out.PutBytes(3, Bytes(100));
  out.EndMessage();
  const std::string line = wire::TraceLines("->", out.bytes(), 4);
  CHECK(line.size() < 2100);
  CHECK(line.ends_with(" ...\n"));
}

}  // namespace fairlead::test
