#include "wire/pipeline.h"

#include <linux/netlink.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "wire/ack_collector.h"

namespace fairlead::wire {

namespace {

// Larger datagrams are not faster, and the kernel handles one without a break for other requests.
constexpr std::size_t kMessagesPerSendMax = 512;
// Bytes that an error with a text takes in the receive buffer, the kernel's overhead included.
constexpr std::size_t kAnswerBytes = 1536;

}  // namespace

Pipeline::Pipeline(Socket& socket) noexcept
    : socket_(socket),
      messages_per_send_(std::clamp(socket.ReceiveBufferBytes() / kAnswerBytes, std::size_t{1},
                                    kMessagesPerSendMax)) {}

void Pipeline::Commit(Origin origin) {
  waiting_.push_back({origin, complete_bytes_});
  complete_bytes_ = out_.size();
  if (waiting_.size() >= messages_per_send_) Flush();
}

void Pipeline::Fail(Origin origin, int error, std::string words) {
  out_.Truncate(complete_bytes_);
  failures_.push_back({origin, error, std::move(words)});
}

void Pipeline::Flush() {
  if (!broken_ && !waiting_.empty()) {
    auto done = Send();
    if (!done) Break(std::move(done.error()));
  }
  waiting_.clear();
  out_.Truncate(0);
  complete_bytes_ = 0;
}

void Pipeline::Break(SystemError error) {
  if (!broken_) broken_ = std::move(error);
}

std::expected<void, SystemError> Pipeline::Send() {
  const std::uint32_t first_sequence = socket_.next_sequence();
  out_.AddFlags(waiting_.back().offset, NLM_F_ACK);
  socket_.SkipSequences(static_cast<std::uint32_t>(waiting_.size()));
  auto sent = socket_.Send(out_.bytes());
  if (!sent) return sent;
  anything_sent_ = true;
  return Collect(first_sequence);
}

std::expected<void, SystemError> Pipeline::Collect(std::uint32_t first_sequence) {
  const auto count = static_cast<std::uint32_t>(waiting_.size());
  AckCollector answers(first_sequence, count);
  bool overrun = false;
  for (;;) {
    const auto received = socket_.Receive(0);
    if (!received) return std::unexpected(received.error());
    if (received->outcome == Socket::Outcome::kNothing) break;
    if (received->outcome == Socket::Outcome::kOverrun) {
      overrun = true;
    } else {
      answers.Take(received->datagram);
    }
  }
  for (const Refusal& refusal : answers.refusals()) {
    failures_.push_back({waiting_[refusal.message].origin, refusal.error, refusal.words});
  }
  taken_ += count - static_cast<std::uint32_t>(answers.refusals().size());
  if (overrun) {
    failures_.push_back({std::nullopt, ENOBUFS, "answers of the kernel were lost"});
  } else if (!answers.Answered(count - 1)) {
    failures_.push_back({std::nullopt, ENOMSG, "the kernel gave no answer"});
  }
  return {};
}

}  // namespace fairlead::wire
