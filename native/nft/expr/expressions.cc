#include "nft/expr/expressions.h"

#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nf_tables_compat.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <tuple>

#include "nft/expr/parts.h"

namespace fairlead::nft::expr {

namespace {

using protocol::kNoRegister;
using PutResult = protocol::Checked;
using namespace protocol::expression;

/** The verdict that is loaded into the verdict register. */
struct VerdictPart {
  void Put(const ImmediateVerdict& immediate, MessageWriter& out) const {
    out.PutU32Be(NFTA_IMMEDIATE_DREG, NFT_REG_VERDICT);
    PutVerdict(out, NFTA_IMMEDIATE_DATA, {immediate.code, immediate.chain});
  }
  bool Take(const Attributes& from, ImmediateVerdict& immediate) const {
    const auto verdict = ReadVerdict(from.Bytes(NFTA_IMMEDIATE_DATA));
    if (verdict) immediate = {verdict->code, verdict->chain};
    return verdict.has_value();
  }
};

/** The ICMP code, which every reject has except a TCP reset. */
struct IcmpCodePart {
  void Put(const Reject& reject, MessageWriter& out) const {
    if (reject.type != NFT_REJECT_TCP_RST) out.PutU8(NFTA_REJECT_ICMP_CODE, reject.icmp_code);
  }
  bool Take(const Attributes& from, Reject& reject) const {
    reject.icmp_code = from.U8(NFTA_REJECT_ICMP_CODE);
    return true;
  }
};

/** The form that records of type R have in netlink: an expression's name, and its parts. */
template <typename R, typename... Parts>
struct Form {
  using Record = R;
  std::string_view name;
  std::tuple<Parts...> parts;
};

template <typename R, typename... Parts>
constexpr Form<R, Parts...> FormOf(std::string_view name, Parts... parts) {
  return {name, {parts...}};
}

/** destination = (source & mask) ^ xor. Records cannot express shifts. */
constexpr auto kBitwise = FormOf<Bitwise>(
    "bitwise", Plain(NFTA_BITWISE_SREG, &Bitwise::source),
    Plain(NFTA_BITWISE_DREG, &Bitwise::destination), Plain(NFTA_BITWISE_LEN, &Bitwise::length),
    Data(NFTA_BITWISE_MASK, &Bitwise::mask), Data(NFTA_BITWISE_XOR, &Bitwise::flip),
    Zero{NFTA_BITWISE_OP});

/** Turns numbers of `size` bytes round, of which there are `length` bytes. */
constexpr auto kByteorder = FormOf<Byteorder>(
    "byteorder", Plain(NFTA_BYTEORDER_SREG, &Byteorder::source),
    Plain(NFTA_BYTEORDER_DREG, &Byteorder::destination),
    Plain(NFTA_BYTEORDER_OP, &Byteorder::operation), Plain(NFTA_BYTEORDER_LEN, &Byteorder::length),
    Plain(NFTA_BYTEORDER_SIZE, &Byteorder::size));

/** Compares the register with the data. Ends the rule when the comparison is false. */
constexpr auto kCmp =
    FormOf<Cmp>("cmp", Plain(NFTA_CMP_SREG, &Cmp::reg), Plain(NFTA_CMP_OP, &Cmp::operation),
                Data(NFTA_CMP_DATA, &Cmp::data));

/** Fails when the packet's connection is not among the first, or is if its flags invert it. */
constexpr auto kConnlimit =
    FormOf<Connlimit>("connlimit", Plain(NFTA_CONNLIMIT_COUNT, &Connlimit::count),
                      Optional(NFTA_CONNLIMIT_FLAGS, &Connlimit::flags, 0u));

/** The record has no counts, so that equal rules have equal records. */
constexpr auto kCounter = FormOf<Counter>("counter");

/** Loads a property of the packet's connection. Records cannot express the form that sets one. */
constexpr auto kCt =
    FormOf<CtLoad>("ct", Needed(NFTA_CT_DREG, &CtLoad::reg), Plain(NFTA_CT_KEY, &CtLoad::key),
                   Optional(NFTA_CT_DIRECTION, &CtLoad::direction, std::uint8_t{0xff}));

/** `ct count over N`, which elements get that packets add. */
struct OverPart {
  void Put(const Dynset& dynset, MessageWriter& out) const {
    if (dynset.over == kNoRegister) return;
    const auto statement = out.BeginNest(NFTA_DYNSET_EXPR);
    out.PutString(NFTA_EXPR_NAME, kConnlimit.name);
    const auto data = out.BeginNest(NFTA_EXPR_DATA);
    out.PutU32Be(NFTA_CONNLIMIT_COUNT, dynset.over);
    out.PutU32Be(NFTA_CONNLIMIT_FLAGS, NFT_CONNLIMIT_F_INV);
    out.EndNest(data);
    out.EndNest(statement);
  }
  bool Take(const Attributes& from, Dynset& dynset) const {
    dynset.over = kNoRegister;
    if (!from.Has(NFTA_DYNSET_EXPR)) return true;
    const wire::AttrTable<NFTA_EXPR_MAX> statement(from.Bytes(NFTA_DYNSET_EXPR));
    if (statement.malformed() || statement.String(NFTA_EXPR_NAME) != kConnlimit.name) return false;
    const Attributes limit(statement.Bytes(NFTA_EXPR_DATA));
    dynset.over = limit.U32Be(NFTA_CONNLIMIT_COUNT);
    return !limit.malformed() && limit.U32Be(NFTA_CONNLIMIT_FLAGS) == NFT_CONNLIMIT_F_INV;
  }
};

/**
 * Adds, updates or deletes an element for a packet. Records cannot express inversion and other
 * statements of elements.
 */
constexpr auto kDynset = FormOf<Dynset>(
    "dynset", Plain(NFTA_DYNSET_SET_NAME, &Dynset::set), Plain(NFTA_DYNSET_OP, &Dynset::operation),
    Plain(NFTA_DYNSET_SREG_KEY, &Dynset::key),
    Optional(NFTA_DYNSET_SREG_DATA, &Dynset::data, kNoRegister),
    Optional(NFTA_DYNSET_TIMEOUT, &Dynset::timeout_ms, std::uint64_t{0}), OverPart{},
    Missing{NFTA_DYNSET_EXPRESSIONS}, Zero{NFTA_DYNSET_FLAGS});

/** Looks an address up in the routing table. */
constexpr auto kFib =
    FormOf<Fib>("fib", Plain(NFTA_FIB_DREG, &Fib::reg), Plain(NFTA_FIB_RESULT, &Fib::result),
                Plain(NFTA_FIB_FLAGS, &Fib::flags));

/** Moves the packet's connection to a flowtable. */
constexpr auto kFlowOffload =
    FormOf<FlowOffload>("flow_offload", Needed(NFTA_FLOW_TABLE_NAME, &FlowOffload::flowtable));

/**
 * Loads a number in offset .. offset + modulus - 1 that the bytes of the source registers decide.
 * The hash is Jenkins'. Records cannot express the symmetric one.
 */
constexpr auto kHash =
    FormOf<Hash>("hash", Needed(NFTA_HASH_SREG, &Hash::source),
                 Plain(NFTA_HASH_DREG, &Hash::destination), Plain(NFTA_HASH_LEN, &Hash::length),
                 Plain(NFTA_HASH_MODULUS, &Hash::modulus), Needed(NFTA_HASH_SEED, &Hash::seed),
                 Optional(NFTA_HASH_OFFSET, &Hash::offset, 0u), Zero{NFTA_HASH_TYPE});

/** Loads a verdict. */
constexpr auto kImmediate = FormOf<ImmediateVerdict>("immediate", VerdictPart{});

/** Loads other data. */
constexpr auto kImmediateData =
    FormOf<ImmediateData>("immediate", Needed(NFTA_IMMEDIATE_DREG, &ImmediateData::reg),
                          Data(NFTA_IMMEDIATE_DATA, &ImmediateData::data));

/** Fails when there is more in a time than the rate, or less if its flags invert it. */
constexpr auto kLimit =
    FormOf<Limit>("limit", Plain(NFTA_LIMIT_RATE, &Limit::rate), Plain(NFTA_LIMIT_UNIT, &Limit::unit),
                  Plain(NFTA_LIMIT_BURST, &Limit::burst), Plain(NFTA_LIMIT_TYPE, &Limit::type),
                  Plain(NFTA_LIMIT_FLAGS, &Limit::flags));

/**
 * Looks the source register up in a set or map. The destination register gets the data of the map;
 * it is register 0 for a verdict map.
 */
constexpr auto kLookup = FormOf<Lookup>(
    "lookup", Plain(NFTA_LOOKUP_SET, &Lookup::set), Plain(NFTA_LOOKUP_SREG, &Lookup::source),
    Optional(NFTA_LOOKUP_DREG, &Lookup::destination, kNoRegister),
    Optional(NFTA_LOOKUP_FLAGS, &Lookup::flags, 0u));

/** Source NAT to the outgoing interface's address. Records cannot express a range of ports. */
constexpr auto kMasquerade = FormOf<Masquerade>(
    "masq", Optional(NFTA_MASQ_FLAGS, &Masquerade::flags, 0u), Missing{NFTA_MASQ_REG_PROTO_MIN});

/**
 * A match of iptables (nft_compat). The kernel dumps its own fields of the structure, such as
 * pointers, as zeroes (nft_extension_dump_info), so that equal rules have equal records.
 */
constexpr auto kMatch =
    FormOf<Match>("match", Needed(NFTA_MATCH_NAME, &Match::name),
                  Plain(NFTA_MATCH_REV, &Match::revision), Needed(NFTA_MATCH_INFO, &Match::info));

/** Sets a property of the packet. */
constexpr auto kMetaSet = FormOf<MetaSet>("meta", Plain(NFTA_META_KEY, &MetaSet::key),
                                          Needed(NFTA_META_SREG, &MetaSet::reg));

/** Loads a property of the packet. */
constexpr auto kMetaLoad = FormOf<MetaLoad>("meta", Plain(NFTA_META_KEY, &MetaLoad::key),
                                            Plain(NFTA_META_DREG, &MetaLoad::reg));

/** Translates the source or destination to the address and port in registers. */
constexpr auto kNat =
    FormOf<Nat>("nat", Plain(NFTA_NAT_TYPE, &Nat::type), Plain(NFTA_NAT_FAMILY, &Nat::family),
                Optional(NFTA_NAT_REG_ADDR_MIN, &Nat::address_min, kNoRegister),
                Optional(NFTA_NAT_REG_ADDR_MAX, &Nat::address_max, kNoRegister),
                Optional(NFTA_NAT_REG_PROTO_MIN, &Nat::port_min, kNoRegister),
                Optional(NFTA_NAT_REG_PROTO_MAX, &Nat::port_max, kNoRegister),
                Optional(NFTA_NAT_FLAGS, &Nat::flags, 0u));

/** Loads the next number, random or incremental, in offset .. offset + modulus - 1. */
constexpr auto kNumgen = FormOf<Numgen>(
    "numgen", Plain(NFTA_NG_DREG, &Numgen::reg), Plain(NFTA_NG_MODULUS, &Numgen::modulus),
    Plain(NFTA_NG_TYPE, &Numgen::type), Plain(NFTA_NG_OFFSET, &Numgen::offset));

/** Loads bytes of the packet. Records cannot express the form that writes to the packet. */
constexpr auto kPayload = FormOf<Payload>(
    "payload", Needed(NFTA_PAYLOAD_DREG, &Payload::reg), Plain(NFTA_PAYLOAD_BASE, &Payload::base),
    Plain(NFTA_PAYLOAD_OFFSET, &Payload::offset), Plain(NFTA_PAYLOAD_LEN, &Payload::length));

/** Drops the packet and answers with an error. */
constexpr auto kReject =
    FormOf<Reject>("reject", Plain(NFTA_REJECT_TYPE, &Reject::type), IcmpCodePart{});

/** Loads a property of the packet's route. */
constexpr auto kRt =
    FormOf<RtLoad>("rt", Plain(NFTA_RT_KEY, &RtLoad::key), Plain(NFTA_RT_DREG, &RtLoad::reg));

/** A target of iptables, see `match`. */
constexpr auto kTarget = FormOf<Target>("target", Needed(NFTA_TARGET_NAME, &Target::name),
                                        Plain(NFTA_TARGET_REV, &Target::revision),
                                        Needed(NFTA_TARGET_INFO, &Target::info));

template <const auto& kForm>
PutResult EncodeAs(std::span<const std::uint8_t> payload, MessageWriter& out) {
  const auto record = protocol::Read<typename std::decay_t<decltype(kForm)>::Record>(payload);
  if (!record) return std::unexpected(record.error());
  std::apply([&](const auto&... part) { (part.Put(*record, out), ...); }, kForm.parts);
  return {};
}

/** Appends the record. False when the attributes have another form. */
template <const auto& kForm>
bool DecodeAs(const Attributes& attributes, protocol::RecordWriter& out) {
  typename std::decay_t<decltype(kForm)>::Record record;
  const bool fits = std::apply(
      [&](const auto&... part) { return (part.Take(attributes, record) && ...); }, kForm.parts);
  if (fits) out.Append(record);
  return fits;
}

struct Codec {
  std::uint32_t code;
  std::string_view name;
  PutResult (*encode)(std::span<const std::uint8_t> payload, MessageWriter& out);
  bool (*decode)(const Attributes& attributes, protocol::RecordWriter& out);
};

template <const auto&... kForms>
constexpr std::array<Codec, sizeof...(kForms)> CodecsFor() {
  return {Codec{std::decay_t<decltype(kForms)>::Record::kCode, kForms.name, EncodeAs<kForms>,
                DecodeAs<kForms>}...};
}

/** Forms with the same name are tried in this order. */
constexpr auto kCodecs =
    CodecsFor<kBitwise, kByteorder, kCmp, kConnlimit, kCounter, kCt, kDynset, kFib, kFlowOffload,
              kHash, kImmediate, kImmediateData, kLimit, kLookup, kMasquerade, kMatch, kMetaSet,
              kMetaLoad, kNat, kNumgen, kPayload, kReject, kRt, kTarget>();

PutResult EncodeOne(const protocol::Record& record, std::uint16_t type, MessageWriter& out) {
  const auto* codec = std::ranges::find(kCodecs, record.code, &Codec::code);
  if (codec == kCodecs.end()) {
    return std::unexpected(protocol::BadRecord{"expression", "code", "is not one of the schema"});
  }
  const auto element = out.BeginNest(type);
  out.PutString(NFTA_EXPR_NAME, codec->name);
  const auto data = out.BeginNest(NFTA_EXPR_DATA);
  const auto put = codec->encode(record.payload, out);
  out.EndNest(data);
  out.EndNest(element);
  return put;
}

void DecodeOne(std::string_view name, std::span<const std::uint8_t> data,
               protocol::RecordWriter& out) {
  const Attributes attributes(data);
  const bool known = std::ranges::any_of(kCodecs, [&](const Codec& codec) {
    return codec.name == name && codec.decode(attributes, out);
  });
  if (!known) out.Append(Unknown{name});
}

}  // namespace

PutResult Encode(std::span<const std::uint8_t> records, MessageWriter& out) {
  const auto list = out.BeginNest(NFTA_RULE_EXPRESSIONS);
  protocol::RecordReader reader(records);
  while (!reader.AtEnd()) {
    const auto record = reader.Next();
    if (!record) return std::unexpected(record.error());
    const auto put = EncodeOne(*record, NFTA_LIST_ELEM, out);
    if (!put) return put;
  }
  out.EndNest(list);
  return {};
}

PutResult EncodeStatement(std::span<const std::uint8_t> records, MessageWriter& out) {
  protocol::RecordReader reader(records);
  if (reader.AtEnd()) return {};
  const auto record = reader.Next();
  return record ? EncodeOne(*record, NFTA_SET_EXPR, out) : std::unexpected(record.error());
}

bool DecodeStatement(std::span<const std::uint8_t> attribute, protocol::RecordWriter& out) {
  const wire::AttrTable<NFTA_EXPR_MAX> expression(attribute);
  if (expression.malformed()) return false;
  DecodeOne(expression.String(NFTA_EXPR_NAME), expression.Bytes(NFTA_EXPR_DATA), out);
  return true;
}

wire::Taken Decode(std::span<const std::uint8_t> attributes, protocol::RecordWriter& out) {
  wire::AttrReader reader(attributes);
  while (const auto element = reader.Next()) {
    if (!DecodeStatement(element->payload, out)) {
      return std::unexpected("expression has a malformed attribute");
    }
  }
  if (reader.malformed()) return std::unexpected("rule has a malformed expression");
  return {};
}

std::uint64_t Packets(std::span<const std::uint8_t> attributes) noexcept {
  wire::AttrReader reader(attributes);
  while (const auto element = reader.Next()) {
    const wire::AttrTable<NFTA_EXPR_MAX> expression(element->payload);
    if (expression.malformed() || expression.String(NFTA_EXPR_NAME) != kCounter.name) continue;
    return wire::AttrTable<NFTA_COUNTER_MAX>(expression.Bytes(NFTA_EXPR_DATA))
        .U64Be(NFTA_COUNTER_PACKETS);
  }
  return 0;
}

}  // namespace fairlead::nft::expr
