#include "acct/acct_family.h"

#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>

#include <utility>

#include "acct/message.h"
#include "protocol/attempt.h"
#include "protocol/dump_answer.h"
#include "protocol/ops.gen.h"
#include "protocol/record_reader.h"
#include "wire/dump_reader.h"

namespace fairlead::acct {

namespace {

using protocol::kUnknownIndex;
using protocol::op::AcctAdd;
using protocol::op::AcctDelete;
using protocol::request::AcctsDump;

Encoded Try(const protocol::Record& record, std::uint32_t index, wire::Pipeline& to) {
  const auto encode = [&to](const auto& op, auto&& write) -> Encoded {
    if (!op) return std::unexpected(op.error());
    return write(*op, to.sequence(), to.out());
  };
  const Encoded encoded = record.code == AcctAdd::kCode
                              ? encode(AcctAdd::Read(record.payload), EncodeAdd)
                              : encode(AcctDelete::Read(record.payload), EncodeDelete);
  if (encoded) to.Commit({index, kUnknownIndex});
  return encoded;
}

}  // namespace

bool AcctFamily::Handles(std::uint32_t code) const noexcept {
  return code == AcctAdd::kCode || code == AcctDelete::kCode || code == AcctsDump::kCode;
}

std::expected<wire::Socket*, SystemError> AcctFamily::OpenSocket() {
  if (!socket_) {
    auto opened = wire::Socket::Open(
        {.protocol = NETLINK_NETFILTER, .family_header_bytes = sizeof(nfgenmsg)});
    if (!opened) return std::unexpected(opened.error());
    socket_.emplace(std::move(*opened));
  }
  return &*socket_;
}

std::expected<ByteBuffer, SystemError> AcctFamily::Run(std::span<const std::uint8_t> buffer) {
  const auto socket = OpenSocket();
  if (!socket) return std::unexpected(socket.error());
  protocol::RecordReader reader(buffer);
  const auto first = reader.Next();
  if (first && first->code == AcctsDump::kCode) {
    if (!reader.AtEnd()) return protocol::RefuseDump({"request", "buffer", "holds more than one"});
    return Dump();
  }
  wire::Pipeline pipeline(**socket);
  auto reply = protocol::AttemptAll(buffer, pipeline, Try);
  if (!reply) socket_.reset();
  return reply;
}

std::expected<ByteBuffer, SystemError> AcctFamily::Dump() {
  const std::uint32_t sequence = socket_->next_sequence();
  socket_->SkipSequences(1);
  const wire::MessageWriter message = EncodeList(sequence);
  const auto sent = socket_->Send(message.bytes());
  if (!sent) return std::unexpected(sent.error());
  protocol::RecordWriter out;
  wire::DumpReader reader(
      sequence, [&out](const wire::Message& answer) { return TakeCounter(answer, out); });
  const auto complete = wire::ReceiveDump(*socket_, reader);
  // Late answers would be taken for those of the next request: start afresh.
  if (!complete || !*complete) socket_.reset();
  if (!complete) return std::unexpected(complete.error());
  return protocol::EndDump(reader.Finish(), std::move(out));
}

}  // namespace fairlead::acct
