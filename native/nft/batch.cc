#include "nft/batch.h"

#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>

#include "nft/chain.h"
#include "nft/echo.h"
#include "nft/elements.h"
#include "nft/object.h"
#include "nft/rule.h"
#include "nft/set.h"
#include "nft/table.h"
#include "wire/ack_collector.h"

namespace fairlead::nft {

namespace op = protocol::op;
using protocol::kUnknownIndex;

namespace {

struct OpEncoder {
  std::uint32_t code;
  EncodeResult (*encode)(std::span<const std::uint8_t> payload, BatchWriter& batch);
};

template <typename Op>
EncodeResult ReadAndEncode(std::span<const std::uint8_t> payload, BatchWriter& batch) {
  const auto read = protocol::Read<Op>(payload);
  if (!read) return std::unexpected(read.error());
  return Encode(*read, batch);
}

template <typename... Ops>
constexpr std::array<OpEncoder, sizeof...(Ops)> EncodersFor() {
  return {OpEncoder{Ops::kCode, &ReadAndEncode<Ops>}...};
}

constexpr auto kEncoders =
    EncodersFor<op::TableAdd, op::TableOwn, op::TableDelete, op::ChainAdd, op::BaseChainAdd,
                op::ChainDelete, op::ChainFlush, op::RuleAdd, op::RuleDelete, op::SetAdd, op::SetDelete, op::SetFlush, op::ElementsAdd,
                op::ElementsDelete, op::XtRuleAdd, op::XtRuleInsert, op::XtRuleReplace,
                op::ObjectDelete>();

const OpEncoder* FindEncoder(std::uint32_t code) noexcept {
  const auto* found = std::find_if(kEncoders.begin(), kEncoders.end(),
                                   [code](const OpEncoder& each) { return each.code == code; });
  return found == kEncoders.end() ? nullptr : found;
}

EncodeResult EncodeOp(const protocol::Record& record, BatchWriter& batch) {
  const OpEncoder* encoder = FindEncoder(record.code);
  if (encoder == nullptr) {
    const bool misplaced = record.code == op::GenerationExpect::kCode;
    return std::unexpected(protocol::DecodeError{
        "op", "code", misplaced ? "generationExpect is not first" : "is not one of the schema"});
  }
  const EncodeResult encoded = encoder->encode(record.payload, batch);
  if (encoded && batch.out().overflowed()) {
    return std::unexpected(protocol::DecodeError{"op", "attribute", "is longer than 64 KiB"});
  }
  return encoded;
}

/** Takes the generation off the front of the ops, when it is there. */
std::expected<std::optional<std::uint32_t>, BadOp> TakeGeneration(
    protocol::RecordReader& reader) noexcept {
  protocol::RecordReader ahead = reader;
  if (ahead.AtEnd()) return std::nullopt;
  const auto record = ahead.Next();
  if (!record || record->code != op::GenerationExpect::kCode) return std::nullopt;
  const auto expected = protocol::Read<op::GenerationExpect>(record->payload);
  if (!expected) return std::unexpected(BadOp{0, expected.error()});
  reader = ahead;
  return expected->generation;
}

/** How long encoding took, and the kernel, which does all its work within the send. */
class Stopwatch {
 public:
  void Encoded() noexcept { encoded_ = Clock::now(); }
  void Sent() noexcept { sent_ = Clock::now(); }

  std::uint32_t encode_us() const noexcept { return Between(started_, encoded_); }
  std::uint32_t kernel_us() const noexcept { return Between(encoded_, sent_); }

 private:
  using Clock = std::chrono::steady_clock;

  static std::uint32_t Between(Clock::time_point from, Clock::time_point to) noexcept {
    return static_cast<std::uint32_t>(
        std::chrono::duration_cast<std::chrono::microseconds>(to - from).count());
  }

  Clock::time_point started_ = Clock::now();
  Clock::time_point encoded_;
  Clock::time_point sent_;
};

ByteBuffer FailedReply(const protocol::reply::Failed& failed) {
  protocol::RecordWriter out;
  out.Append(failed);
  return std::move(out.buffer());
}

/** The kernel's errors, with the op and entry that each belongs to. */
void WriteRefusals(const BatchWriter& batch, const std::vector<wire::Refusal>& refusals,
                   protocol::RecordWriter& out) {
  for (const wire::Refusal& refusal : refusals) {
    const Origin& origin = batch.origins()[refusal.message];
    protocol::reply::Failed failed;
    failed.op = origin.op;
    failed.entry = kUnknownIndex;
    if (origin.first_entry != kUnknownIndex && refusal.offset) {
      const std::uint32_t element = ElementAt(batch.Message(refusal.message), *refusal.offset);
      if (element != kUnknownIndex) failed.entry = origin.first_entry + element;
    }
    failed.error = static_cast<std::uint32_t>(refusal.error);
    failed.message = refusal.words;
    out.Append(failed);
  }
}

/**
 * All answers are there when the send returns: the kernel handles a batch within it
 * (nfnetlink_rcv_batch). It acknowledges messages before the failing one as if nothing had
 * happened, and a failed commit is reported for the first message besides, so that one error for
 * any of them condemns the batch.
 */
std::expected<ByteBuffer, SystemError> CollectAnswers(wire::Socket& socket,
                                                      const BatchWriter& batch,
                                                      std::uint32_t first_sequence,
                                                      const Stopwatch& watch) {
  const auto messages = static_cast<std::uint32_t>(batch.origins().size());
  wire::AckCollector answers(first_sequence, messages);
  EchoCollector echoes(first_sequence, batch);
  bool overrun = false;
  for (;;) {
    const auto received = socket.Receive(0);
    if (!received) return std::unexpected(received.error());
    if (received->outcome == wire::Socket::Outcome::kNothing) break;
    if (received->outcome == wire::Socket::Outcome::kOverrun) {
      overrun = true;
    } else {
      answers.Take(received->datagram);
      if (batch.echoes() > 0) echoes.Take(received->datagram);
    }
  }
  protocol::RecordWriter out;
  WriteRefusals(batch, answers.refusals(), out);
  // BATCH_BEGIN and BATCH_END are messages too; the last op's message asked for an answer.
  const bool silent = (messages > 2 && !answers.Answered(messages - 2)) || !echoes.complete();
  if (answers.refusals().empty() && (overrun || silent)) {
    const std::uint32_t error = overrun ? ENOBUFS : ENOMSG;
    return FailedReply({kUnknownIndex, kUnknownIndex, error,
                        overrun ? "the kernel's answer was lost: the outcome is unknown"
                                : "the kernel gave no answer: the outcome is unknown"});
  }
  if (answers.refusals().empty()) {
    protocol::reply::Committed committed;
    committed.messages = messages;
    committed.bytes = static_cast<std::uint32_t>(batch.bytes().size());
    committed.encode_us = watch.encode_us();
    committed.kernel_us = watch.kernel_us();
    committed.port = socket.port();
    out.Append(committed);
    echoes.Write(out);
  }
  return std::move(out.buffer());
}

}  // namespace

bool IsOp(std::uint32_t code) noexcept {
  return code == op::GenerationExpect::kCode || FindEncoder(code) != nullptr;
}

std::expected<BatchWriter, BadOp> EncodeBatch(std::span<const std::uint8_t> ops,
                                              std::uint32_t first_sequence) {
  protocol::RecordReader reader(ops);
  const auto generation = TakeGeneration(reader);
  if (!generation) return std::unexpected(generation.error());
  BatchWriter batch(first_sequence, *generation);
  // An element grows to about three times its packed form.
  batch.out().Reserve(3 * ops.size() + 4096);
  for (std::uint32_t index = *generation ? 1 : 0; !reader.AtEnd(); ++index) {
    const auto record = reader.Next();
    if (!record) return std::unexpected(BadOp{index, record.error()});
    batch.BeginOp(index);
    const EncodeResult encoded = EncodeOp(*record, batch);
    if (!encoded) return std::unexpected(BadOp{index, encoded.error()});
  }
  batch.Finish();
  return batch;
}

std::expected<ByteBuffer, SystemError> RunBatch(wire::Socket& socket,
                                                std::span<const std::uint8_t> ops) {
  const std::uint32_t first_sequence = socket.next_sequence();
  Stopwatch watch;
  const auto batch = EncodeBatch(ops, first_sequence);
  if (!batch) {
    const std::string words = protocol::Words(batch.error().error.reason);
    return FailedReply({batch.error().op, batch.error().error.entry, EINVAL, words});
  }
  socket.SkipSequences(static_cast<std::uint32_t>(batch->origins().size()));
  if (batch->echoes() > 0) socket.GrowReceiveBuffer(EchoBytes(batch->echoes()));
  watch.Encoded();
  const auto sent = socket.Send(batch->bytes());
  watch.Sent();
  if (!sent) return std::unexpected(sent.error());
  return CollectAnswers(socket, *batch, first_sequence, watch);
}

}  // namespace fairlead::nft
