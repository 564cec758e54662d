#include "nft/expr/expressions.h"

#include <linux/netfilter/nf_tables.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "nft/expr/codecs.h"
#include "wire/attr_reader.h"

namespace fairlead::nft::expr {

namespace {

using PutResult = std::expected<void, protocol::DecodeError>;

struct Encoder {
  std::uint32_t code;
  std::string_view name;
  PutResult (*put)(std::span<const std::uint8_t> payload, MessageWriter& out);
};

struct Decoder {
  std::string_view name;
  bool (*decode)(Attributes attributes, RecordWriter& out);
};

template <typename Expression>
PutResult ReadAndPut(std::span<const std::uint8_t> payload, MessageWriter& out) {
  const auto read = protocol::Read<Expression>(payload);
  if (!read) return std::unexpected(read.error());
  Put(*read, out);
  return {};
}

template <typename Expression>
constexpr Encoder EncoderFor(std::string_view name) {
  return {Expression::kCode, name, &ReadAndPut<Expression>};
}

constexpr std::array kEncoders = {
    EncoderFor<expression::Bitwise>("bitwise"),
    EncoderFor<expression::Cmp>("cmp"),
    EncoderFor<expression::Counter>("counter"),
    EncoderFor<expression::CtLoad>("ct"),
    EncoderFor<expression::Dynset>("dynset"),
    EncoderFor<expression::Fib>("fib"),
    EncoderFor<expression::ImmediateData>("immediate"),
    EncoderFor<expression::ImmediateVerdict>("immediate"),
    EncoderFor<expression::Lookup>("lookup"),
    EncoderFor<expression::Masquerade>("masq"),
    EncoderFor<expression::Match>("match"),
    EncoderFor<expression::MetaLoad>("meta"),
    EncoderFor<expression::MetaSet>("meta"),
    EncoderFor<expression::Nat>("nat"),
    EncoderFor<expression::Numgen>("numgen"),
    EncoderFor<expression::Payload>("payload"),
    EncoderFor<expression::Range>("range"),
    EncoderFor<expression::Reject>("reject"),
    EncoderFor<expression::Target>("target"),
};

constexpr std::array kDecoders = {
    Decoder{"bitwise", DecodeBitwise},     Decoder{"cmp", DecodeCmp},
    Decoder{"counter", DecodeCounter},     Decoder{"ct", DecodeCt},
    Decoder{"dynset", DecodeDynset},       Decoder{"fib", DecodeFib},
    Decoder{"immediate", DecodeImmediate}, Decoder{"lookup", DecodeLookup},
    Decoder{"masq", DecodeMasquerade},     Decoder{"match", DecodeMatch},
    Decoder{"meta", DecodeMeta},           Decoder{"nat", DecodeNat},
    Decoder{"numgen", DecodeNumgen},       Decoder{"payload", DecodePayload},
    Decoder{"range", DecodeRange},         Decoder{"reject", DecodeReject},
    Decoder{"target", DecodeTarget},
};

PutResult EncodeOne(const protocol::Record& record, MessageWriter& out) {
  const auto* encoder =
      std::find_if(kEncoders.begin(), kEncoders.end(),
                   [&record](const Encoder& candidate) { return candidate.code == record.code; });
  if (encoder == kEncoders.end()) {
    return std::unexpected(protocol::DecodeError{"expression", "code", "is not one of the schema"});
  }
  const auto element = out.BeginNest(NFTA_LIST_ELEM);
  out.PutString(NFTA_EXPR_NAME, encoder->name);
  const auto data = out.BeginNest(NFTA_EXPR_DATA);
  const auto put = encoder->put(record.payload, out);
  out.EndNest(data);
  out.EndNest(element);
  return put;
}

void DecodeOne(std::string_view name, Attributes data, RecordWriter& out) {
  const auto* decoder =
      std::find_if(kDecoders.begin(), kDecoders.end(),
                   [name](const Decoder& candidate) { return candidate.name == name; });
  if (decoder != kDecoders.end() && decoder->decode(data, out)) return;
  out.Append(expression::Unknown{name});
}

}  // namespace

PutResult Encode(std::span<const std::uint8_t> records, MessageWriter& out) {
  const auto list = out.BeginNest(NFTA_RULE_EXPRESSIONS);
  protocol::RecordReader reader(records);
  while (!reader.AtEnd()) {
    const auto record = reader.Next();
    if (!record) return std::unexpected(record.error());
    const auto put = EncodeOne(*record, out);
    if (!put) return put;
  }
  out.EndNest(list);
  return {};
}

DecodeResult Decode(std::span<const std::uint8_t> attributes, RecordWriter& out) {
  wire::AttrReader reader(attributes);
  while (const auto element = reader.Next()) {
    const wire::AttrTable<NFTA_EXPR_MAX> expression(element->payload);
    if (expression.malformed()) return Malformed("expression", "has a malformed attribute");
    DecodeOne(expression.String(NFTA_EXPR_NAME), expression.Bytes(NFTA_EXPR_DATA), out);
  }
  if (reader.malformed()) return Malformed("rule", "has a malformed expression");
  return {};
}

}  // namespace fairlead::nft::expr
