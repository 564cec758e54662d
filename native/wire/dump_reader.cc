#include "wire/dump_reader.h"

#include <linux/netlink.h>

#include <cerrno>

#include "wire/ack_collector.h"

namespace fairlead::wire {

namespace {

// The kernel fills the next part of a dump while the last one is received (netlink_recvmsg), so no
// part is waited for. The timeout is for kernels that might do otherwise.
constexpr int kAnswerTimeoutMs = 2000;

}  // namespace

void DumpReader::Take(std::span<const std::uint8_t> datagram) {
  MessageReader reader(datagram);
  while (const auto message = reader.Next()) {
    if (done_ || message->sequence != sequence_) continue;
    if ((message->flags & NLM_F_DUMP_INTR) != 0) end_.interrupted = true;
    if (message->type == NLMSG_DONE || message->type == NLMSG_ERROR) {
      const Answer answer = ReadAnswer(*message);
      if (answer.error != 0) Fail(answer.error, answer.words);
      done_ = true;
    } else if (message->type >= NLMSG_MIN_TYPE && end_.error == 0) {
      // After an error the rest of the dump is received and dropped.
      auto taken = take_object_(*message);
      if (!taken) Fail(EPROTO, std::move(taken.error()));
    }
  }
  if (reader.malformed()) Fail(EPROTO, "the kernel sent a malformed message");
}

void DumpReader::Fail(int error, std::string words) {
  if (end_.error != 0) return;
  end_.error = error;
  end_.words = std::move(words);
}

DumpEnd DumpReader::Finish() {
  if (!done_ && !end_.overrun) Fail(ETIMEDOUT, "the kernel did not end its answer");
  return std::move(end_);
}

std::expected<void, SystemError> Ask(Socket& socket, const MessageWriter& request,
                                     DumpReader& reader) {
  socket.SkipSequences(1);
  auto sent = socket.Send(request.bytes());
  if (!sent) return sent;
  bool overrun = false;
  while (!reader.done()) {
    const auto received = socket.Receive(overrun ? 0 : kAnswerTimeoutMs);
    if (!received) return std::unexpected(received.error());
    if (received->outcome == Socket::Outcome::kNothing) break;
    if (received->outcome == Socket::Outcome::kData) {
      reader.Take(received->datagram);
      continue;
    }
    overrun = true;
    reader.TakeOverrun();
  }
  if (overrun || !reader.done()) socket.LoseStep();
  return {};
}

std::expected<DumpEnd, SystemError> Ask(Socket& socket, const MessageWriter& request,
                                        DumpReader::TakeObject take) {
  DumpReader reader(socket.next_sequence(), std::move(take));
  const auto asked = Ask(socket, request, reader);
  if (!asked) return std::unexpected(asked.error());
  return reader.Finish();
}

}  // namespace fairlead::wire
