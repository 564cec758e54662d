#include "nft/dump.h"

#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>

#include <cerrno>

#include "nft/batch_writer.h"
#include "nft/chain.h"
#include "nft/elements.h"
#include "nft/generation.h"
#include "nft/rule.h"
#include "nft/set.h"
#include "nft/table.h"
#include "wire/ack_collector.h"
#include "wire/byte_order.h"

namespace fairlead::nft {

namespace request = protocol::request;

namespace {

// The kernel fills the next part of a dump while the last one is received (netlink_recvmsg), so
// that nothing ever has to be waited for; the time is a bound for the case that this changes.
constexpr int kAnswerTimeoutMs = 2000;

/** Decodes one object, as the request that it answers wants. */
struct ObjectDecoder {
  std::uint16_t type;
  std::uint8_t family;
  std::span<const std::uint8_t> attributes;
  WalkCheck& walk;
  protocol::RecordWriter& out;

  DecodeResult operator()(const request::GenerationGet&) const {
    if (type != MessageType(NFT_MSG_NEWGEN)) return {};
    return DecodeGeneration(attributes, out);
  }
  DecodeResult operator()(const request::TablesDump&) const {
    if (type != MessageType(NFT_MSG_NEWTABLE)) return {};
    return DecodeTable(family, attributes, out);
  }
  DecodeResult operator()(const request::ChainsDump& dump) const {
    if (type != MessageType(NFT_MSG_NEWCHAIN)) return {};
    return DecodeChain(family, dump.table, attributes, out);
  }
  DecodeResult operator()(const request::RulesDump&) const {
    if (type != MessageType(NFT_MSG_NEWRULE)) return {};
    return DecodeRule(family, attributes, out);
  }
  DecodeResult operator()(const request::SetsDump&) const {
    if (type != MessageType(NFT_MSG_NEWSET)) return {};
    return DecodeSet(family, attributes, out);
  }
  DecodeResult operator()(const request::ElementsDump& dump) const {
    if (type != MessageType(NFT_MSG_NEWSETELEM)) return {};
    const EntryLayout layout{dump.shape, dump.key_length, dump.data_length};
    return DecodeElements(family, layout, attributes, walk, out);
  }
};

DumpOutcome RefusedRequest(const protocol::DecodeError& error) {
  const std::string words = std::string(error.record) + "." + error.field + " " + error.problem;
  protocol::RecordWriter out;
  protocol::reply::Dumped{0, 0, EINVAL, words}.Write(out);
  return {std::move(out.buffer()), true};
}

}  // namespace

void DumpDecoder::Take(std::span<const std::uint8_t> datagram) {
  wire::MessageReader reader(datagram);
  while (const auto message = reader.Next()) {
    if (done_ || message->sequence != sequence_) continue;
    if ((message->flags & NLM_F_DUMP_INTR) != 0) interrupted_ = true;
    if (message->type == NLMSG_DONE || message->type == NLMSG_ERROR) {
      const wire::Answer answer = wire::ReadAnswer(*message);
      if (answer.error != 0) Fail(answer.error, answer.words);
      done_ = true;
    } else if (message->type >= NLMSG_MIN_TYPE) {
      TakeAnswer(message->type, message->payload);
    }
  }
  if (reader.malformed()) Fail(EPROTO, "the kernel sent a malformed message");
}

void DumpDecoder::TakeAnswer(std::uint16_t type, std::span<const std::uint8_t> payload) {
  // After an error the rest of the dump is only drained.
  if (error_ != 0) return;
  if (payload.size() < sizeof(nfgenmsg)) return Fail(EPROTO, "the kernel sent a short message");
  // Dumps of elements are never marked NLM_F_DUMP_INTR (nf_tables_dump_set does not check), but
  // every message carries the low bits of the generation (nfgenmsg.res_id).
  const auto generation = wire::LoadBe<std::uint16_t>(payload.data() + 2);
  if (generation_.value_or(generation) != generation) interrupted_ = true;
  generation_ = generation;
  const DecodeResult decoded = std::visit(
      ObjectDecoder{type, payload[0], payload.subspan(sizeof(nfgenmsg)), walk_, out_}, request_);
  if (!decoded) {
    Fail(EPROTO, std::string(decoded.error().subject) + " " + decoded.error().problem);
  }
}

void DumpDecoder::Fail(int error, std::string words) {
  if (error_ != 0) return;
  error_ = error;
  words_ = std::move(words);
}

ByteBuffer DumpDecoder::Finish() {
  if (walk_.Disturbed()) interrupted_ = true;
  if (!done_ && !overrun_) Fail(ETIMEDOUT, "the kernel did not end its answer");
  protocol::reply::Dumped dumped;
  dumped.interrupted = interrupted_ ? 1 : 0;
  dumped.overrun = overrun_ ? 1 : 0;
  dumped.error = static_cast<std::uint32_t>(error_);
  dumped.message = words_;
  dumped.Write(out_);
  return std::move(out_.buffer());
}

std::expected<DumpOutcome, SystemError> RunRequest(wire::Socket& socket,
                                                   std::span<const std::uint8_t> buffer) {
  const auto request = ReadRequest(buffer);
  if (!request) return RefusedRequest(request.error());
  const std::uint32_t sequence = socket.next_sequence();
  socket.SkipSequences(1);
  const wire::MessageWriter message = EncodeRequest(*request, sequence);
  if (message.overflowed()) {
    return RefusedRequest({"request", "name", "is longer than 64 KiB"});
  }
  const auto sent = socket.Send(message.bytes());
  if (!sent) return std::unexpected(sent.error());
  DumpDecoder decoder(*request, sequence);
  bool overrun = false;
  while (!decoder.done()) {
    const auto received = socket.Receive(overrun ? 0 : kAnswerTimeoutMs);
    if (!received) return std::unexpected(received.error());
    if (received->outcome == wire::Socket::Outcome::kNothing) break;
    if (received->outcome == wire::Socket::Outcome::kData) {
      decoder.Take(received->datagram);
      continue;
    }
    overrun = true;
    decoder.TakeOverrun();
  }
  const bool complete = decoder.done() && !overrun;
  return DumpOutcome{decoder.Finish(), complete};
}

}  // namespace fairlead::nft
