// Records: native/protocol.
#include <algorithm>

#include "check.h"
#include "protocol/ops.gen.h"

namespace fairlead::test {

using protocol::RecordReader;
using protocol::RecordWriter;
namespace expression = protocol::expression;
namespace op = protocol::op;
namespace reply = protocol::reply;

namespace {

Bytes Payload(const RecordWriter& out) {
  const auto bytes = out.bytes().subspan(8);
  return Bytes(bytes.begin(), bytes.end());
}

}  // namespace

TEST("a record has the layout that TypeScript writes") {
  RecordWriter out;
  out.Append(op::BaseChainAdd{2, "t", "chain", "nat", 0, -100, 1, ""});
  CHECK_EQUAL(out.bytes(), FromHex("05000000 30000000"
                                   "02000000"
                                   "01000000 74000000"
                                   "05000000 63686169 6e000000"
                                   "03000000 6e617400"
                                   "00000000 9cffffff 01000000"
                                   "00000000"));
}

TEST("every kind of field reads back") {
  RecordWriter out;
  const Bytes data = FromHex("010203");
  out.Append(expression::Cmp{9, 1, data});
  out.Append(expression::ImmediateVerdict{-4, "backends"});
  out.Append(reply::Rule{2, "t", "c", 0x1'0000'0005, 0x2'0000'0007, data, "why"});
  RecordReader reader(out.bytes());

  const auto cmp = protocol::Read<expression::Cmp>(reader.Next()->payload);
  CHECK_EQUAL(cmp->reg, 9u);
  CHECK_EQUAL(cmp->data, data);
  const auto verdict = protocol::Read<expression::ImmediateVerdict>(reader.Next()->payload);
  CHECK_EQUAL(verdict->code, -4);
  CHECK_EQUAL(verdict->chain, "backends");
  const auto rule = protocol::Read<reply::Rule>(reader.Next()->payload);
  CHECK_EQUAL(rule->handle, 0x1'0000'0005u);
  CHECK_EQUAL(rule->packets, 0x2'0000'0007u);
  CHECK_EQUAL(rule->comment, "why");
  CHECK(reader.AtEnd());
}

TEST("a record cut off anywhere is refused, and names the field") {
  RecordWriter out;
  out.Append(op::TableAdd{2, "table", "a comment"});
  const Bytes whole = Payload(out);
  for (std::size_t length = 0; length < whole.size(); ++length) {
    const Bytes cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length));
    CHECK(!protocol::Read<op::TableAdd>(cut).has_value());
  }
  const Bytes cut(whole.begin(), whole.begin() + 12);
  CHECK_EQUAL(Words(protocol::Read<op::TableAdd>(cut).error()), "tableAdd.table is truncated");
}

TEST("a record with bytes left over is refused") {
  RecordWriter out;
  out.Append(op::TableDelete{2, "t"});
  Bytes payload = Payload(out);
  payload.resize(payload.size() + 4);
  CHECK_EQUAL(Words(protocol::Read<op::TableDelete>(payload).error()),
              "tableDelete.payload continues after the last field");
}

TEST("a length near 2^32 does not overflow") {
  const Bytes payload = FromHex("02000000 fdffffff 74000000");
  CHECK_EQUAL(Words(protocol::Read<op::TableDelete>(payload).error()),
              "tableDelete.table is truncated");
  const Bytes record = FromHex("03000000 fcffffff 02000000");
  RecordReader reader(record);
  CHECK_EQUAL(Words(reader.Next().error()), "record.payload is longer than the buffer");
  CHECK(reader.AtEnd());
}

TEST("a number too large for its field is refused") {
  const Bytes payload = FromHex("00010000 01000000 74000000");
  CHECK_EQUAL(Words(protocol::Read<op::TableDelete>(payload).error()),
              "tableDelete.family is not a u8");
}

TEST("a string with a NUL is refused: the kernel would see another name") {
  const Bytes payload = FromHex("02000000 03000000 61006200");
  CHECK_EQUAL(Words(protocol::Read<op::TableDelete>(payload).error()),
              "tableDelete.table contains a NUL");
}

TEST("a buffer that ends within a header is refused") {
  const Bytes bytes = FromHex("03000000 0000");
  RecordReader reader(bytes);
  CHECK_EQUAL(Words(reader.Next().error()), "record.header is truncated");
}

TEST("a buffer gives its memory away and can be used again") {
  ByteBuffer buffer;
  std::copy_n("abcd", 4, buffer.Extend(4));
  const std::uint8_t* data = buffer.data();
  const ByteBuffer::Memory memory = buffer.Release();
  CHECK(memory.get() == data);
  CHECK_EQUAL(buffer.size(), std::size_t{0});
  *buffer.Extend(1) = 1;
  CHECK_EQUAL(buffer.bytes(), FromHex("01"));
}

}  // namespace fairlead::test
