#include "nft/batch.h"

#include <cerrno>
#include <chrono>

#include "nft/echo.h"
#include "nft/elements.h"
#include "nft/objects.h"
#include "protocol/one_of.h"
#include "wire/ack_collector.h"

namespace fairlead::nft {

using protocol::kUnknownIndex;

namespace {

EncodeResult EncodeOp(const protocol::Record& record, BatchWriter& batch) {
  const auto op = protocol::ReadOneOf<Op>(record, "op");
  if (!op) return std::unexpected(op.error());
  const EncodeResult encoded =
      std::visit([&batch](const auto& each) { return Encode(each, batch); }, *op);
  if (encoded && batch.out().overflowed()) {
    return std::unexpected(protocol::BadRecord{"op", "attribute", "is longer than 64 KiB"});
  }
  return encoded;
}

/** Measures the time of encoding, and that of the kernel, which commits within the send. */
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

/** Appends a record `failed` for each error, with its op and entry. */
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
 * All answers are there when the send returns, because the kernel handles a batch within it
 * (nfnetlink_rcv_batch). Messages before a failing one are acknowledged without an error, and an
 * error of the commit itself is reported for the first message. So the batch has failed if any
 * message has an error.
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
  // The first and last message are BATCH_BEGIN and BATCH_END. The one before the last asked for an
  // acknowledgement.
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

std::expected<BatchWriter, BadOp> EncodeBatch(std::span<const std::uint8_t> ops,
                                              std::uint32_t first_sequence,
                                              std::uint32_t first_op) {
  protocol::RecordReader reader(ops);
  BatchWriter batch(first_sequence);
  // An element in netlink is about three times as long as packed.
  batch.out().Reserve(3 * ops.size() + 4096);
  for (std::uint32_t index = first_op; !reader.AtEnd(); ++index) {
    batch.BeginOp(index);
    const auto record = reader.Next();
    const EncodeResult encoded =
        record ? EncodeOp(*record, batch) : EncodeResult(std::unexpected(record.error()));
    if (encoded) continue;
    BadOp bad = encoded.error();
    bad.op = index;
    return std::unexpected(bad);
  }
  batch.Finish();
  return batch;
}

std::expected<ByteBuffer, SystemError> RunBatch(wire::Socket& socket,
                                                std::span<const std::uint8_t> ops,
                                                std::uint32_t first_op) {
  const std::uint32_t first_sequence = socket.next_sequence();
  Stopwatch watch;
  const auto batch = EncodeBatch(ops, first_sequence, first_op);
  if (!batch) {
    const BadOp& bad = batch.error();
    const std::string words = protocol::Words(bad.reason);
    return FailedReply({bad.op, bad.entry, EINVAL, words});
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
