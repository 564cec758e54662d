// One pair for each kernel expression. Put writes the attributes of NFTA_EXPR_DATA; Decode reads
// them into a record, or gives false for a form of the expression that no record can express.
#ifndef FAIRLEAD_NFT_EXPR_CODECS_H_
#define FAIRLEAD_NFT_EXPR_CODECS_H_

#include <cstdint>
#include <span>

#include "protocol/ops.gen.h"
#include "wire/message_writer.h"

namespace fairlead::nft::expr {

using Attributes = std::span<const std::uint8_t>;
using protocol::RecordWriter;
using wire::MessageWriter;
namespace expression = protocol::expression;

void Put(const expression::Bitwise& bitwise, MessageWriter& out);
bool DecodeBitwise(Attributes attributes, RecordWriter& out);

void Put(const expression::Cmp& cmp, MessageWriter& out);
bool DecodeCmp(Attributes attributes, RecordWriter& out);

void Put(const expression::Counter& counter, MessageWriter& out);
bool DecodeCounter(Attributes attributes, RecordWriter& out);

void Put(const expression::CtLoad& ct, MessageWriter& out);
bool DecodeCt(Attributes attributes, RecordWriter& out);

void Put(const expression::Dynset& dynset, MessageWriter& out);
bool DecodeDynset(Attributes attributes, RecordWriter& out);

void Put(const expression::Fib& fib, MessageWriter& out);
bool DecodeFib(Attributes attributes, RecordWriter& out);

void Put(const expression::ImmediateData& immediate, MessageWriter& out);
void Put(const expression::ImmediateVerdict& immediate, MessageWriter& out);
bool DecodeImmediate(Attributes attributes, RecordWriter& out);

void Put(const expression::Lookup& lookup, MessageWriter& out);
bool DecodeLookup(Attributes attributes, RecordWriter& out);

void Put(const expression::Masquerade& masquerade, MessageWriter& out);
bool DecodeMasquerade(Attributes attributes, RecordWriter& out);

void Put(const expression::Match& match, MessageWriter& out);
bool DecodeMatch(Attributes attributes, RecordWriter& out);

void Put(const expression::MetaLoad& meta, MessageWriter& out);
void Put(const expression::MetaSet& meta, MessageWriter& out);
bool DecodeMeta(Attributes attributes, RecordWriter& out);

void Put(const expression::Nat& nat, MessageWriter& out);
bool DecodeNat(Attributes attributes, RecordWriter& out);

void Put(const expression::Numgen& numgen, MessageWriter& out);
bool DecodeNumgen(Attributes attributes, RecordWriter& out);

void Put(const expression::Payload& payload, MessageWriter& out);
bool DecodePayload(Attributes attributes, RecordWriter& out);

void Put(const expression::Range& range, MessageWriter& out);
bool DecodeRange(Attributes attributes, RecordWriter& out);

void Put(const expression::Reject& reject, MessageWriter& out);
bool DecodeReject(Attributes attributes, RecordWriter& out);

void Put(const expression::Target& target, MessageWriter& out);
bool DecodeTarget(Attributes attributes, RecordWriter& out);

}  // namespace fairlead::nft::expr

#endif  // FAIRLEAD_NFT_EXPR_CODECS_H_
