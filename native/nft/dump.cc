#include "nft/dump.h"

#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>

#include <cerrno>

#include "nft/batch_writer.h"
#include "nft/elements.h"
#include "nft/objects.h"
#include "protocol/dump_answer.h"
#include "wire/byte_order.h"

namespace fairlead::nft {

namespace request = protocol::request;

namespace {

/** Decodes the message of one object for its request. Ignores messages of other types. */
struct ObjectDecoder {
  std::uint16_t type;
  std::uint8_t family;
  std::span<const std::uint8_t> attributes;
  ElementSorter& elements;
  protocol::RecordWriter& out;

  wire::Taken operator()(const request::GenerationGet&) const {
    if (type != MessageType(NFT_MSG_NEWGEN)) return {};
    return DecodeGeneration(attributes, out);
  }
  wire::Taken operator()(const request::TablesDump&) const {
    if (type != MessageType(NFT_MSG_NEWTABLE)) return {};
    return DecodeTable(family, attributes, out);
  }
  wire::Taken operator()(const request::ChainsDump& dump) const {
    if (type != MessageType(NFT_MSG_NEWCHAIN)) return {};
    return DecodeChain(family, dump.table, attributes, out);
  }
  wire::Taken operator()(const request::RulesDump&) const {
    if (type != MessageType(NFT_MSG_NEWRULE)) return {};
    return DecodeRule(family, attributes, out);
  }
  wire::Taken operator()(const request::SetsDump&) const {
    if (type != MessageType(NFT_MSG_NEWSET)) return {};
    return DecodeSet(family, attributes, out);
  }
  wire::Taken operator()(const request::ObjectsDump& dump) const {
    if (type != MessageType(NFT_MSG_NEWOBJ)) return {};
    return DecodeObject(family, dump.table, attributes, out);
  }
  wire::Taken operator()(const request::FlowtablesDump& dump) const {
    if (type != MessageType(NFT_MSG_NEWFLOWTABLE)) return {};
    return DecodeFlowtable(family, dump.table, attributes, out);
  }
  wire::Taken operator()(const request::ElementsDump& dump) const {
    if (type != MessageType(NFT_MSG_NEWSETELEM)) return {};
    const EntryLayout layout{dump.shape, dump.key_length, dump.data_length};
    return DecodeElements(layout, attributes, elements);
  }
};

}  // namespace

wire::Taken DumpDecoder::TakeAnswer(const wire::Message& message) {
  const auto attributes = wire::AttributesOf(message, sizeof(nfgenmsg));
  if (!attributes) return std::unexpected(attributes.error());
  // Dumps of elements never have NLM_F_DUMP_INTR (nf_tables_dump_set does not check). But every
  // message has the low bits of the generation (nfgenmsg.res_id).
  const auto generation = wire::LoadBe<std::uint16_t>(message.payload.data() + 2);
  if (generation_.value_or(generation) != generation) interrupted_ = true;
  generation_ = generation;
  return std::visit(ObjectDecoder{message.type, message.payload[0], *attributes, elements_, out_},
                    request_);
}

EntryLayout DumpDecoder::LayoutOf(const Request& request) noexcept {
  const auto* dump = std::get_if<request::ElementsDump>(&request);
  if (dump == nullptr) return {};
  return {dump->shape, dump->key_length, dump->data_length};
}

void DumpDecoder::WriteElements(const request::ElementsDump& dump) {
  const std::uint32_t count = elements_.count();
  if (count == 0 && elements_.strange() == 0) return;
  const ByteBuffer entries = elements_.Finish();
  protocol::reply::Elements reply;
  reply.family = dump.family;
  reply.table = dump.table;
  reply.set = dump.set;
  reply.shape = dump.shape;
  reply.key_length = dump.key_length;
  reply.data_length = dump.data_length;
  reply.count = count;
  reply.entries = entries.bytes();
  reply.strange = elements_.strange();
  out_.Append(reply);
}

ByteBuffer DumpDecoder::Finish() {
  if (const auto* dump = std::get_if<request::ElementsDump>(&request_)) WriteElements(*dump);
  wire::DumpEnd end = reader_.Finish();
  end.interrupted = end.interrupted || interrupted_ || elements_.disturbed();
  return protocol::EndDump(end, std::move(out_));
}

std::expected<ByteBuffer, SystemError> RunRequest(wire::Socket& socket, const Request& request) {
  const std::uint32_t sequence = socket.next_sequence();
  const wire::MessageWriter message = EncodeRequest(request, sequence);
  if (message.overflowed()) {
    return protocol::RefuseDump({"request", "name", "is longer than 64 KiB"});
  }
  DumpDecoder decoder(request, sequence);
  const auto asked = wire::Ask(socket, message, decoder.reader());
  if (!asked) return std::unexpected(asked.error());
  return decoder.Finish();
}

}  // namespace fairlead::nft
