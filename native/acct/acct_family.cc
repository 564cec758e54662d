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
                              ? encode(protocol::Read<AcctAdd>(record.payload), EncodeAdd)
                              : encode(protocol::Read<AcctDelete>(record.payload), EncodeDelete);
  if (encoded) to.Commit({index, kUnknownIndex});
  return encoded;
}

}  // namespace

AcctFamily::AcctFamily() noexcept
    : socket_({.protocol = NETLINK_NETFILTER, .family_header_bytes = sizeof(nfgenmsg)}) {}

bool AcctFamily::Handles(std::uint32_t code) const noexcept {
  return code == AcctAdd::kCode || code == AcctDelete::kCode || code == AcctsDump::kCode;
}

std::expected<ByteBuffer, SystemError> AcctFamily::Run(std::span<const std::uint8_t> buffer) {
  const auto socket = socket_.Open();
  if (!socket) return std::unexpected(socket.error());
  protocol::RecordReader reader(buffer);
  const auto first = reader.Next();
  if (first && first->code == AcctsDump::kCode) {
    if (!reader.AtEnd()) return protocol::RefuseDump({"request", "buffer", "holds more than one"});
    auto reply = Dump(**socket);
    if (!reply) socket_.Close();
    return reply;
  }
  wire::Pipeline pipeline(**socket);
  auto reply = protocol::AttemptAll(buffer, pipeline, Try);
  if (!reply) socket_.Close();
  return reply;
}

std::expected<ByteBuffer, SystemError> AcctFamily::Dump(wire::Socket& socket) {
  const std::uint32_t sequence = socket.next_sequence();
  socket.SkipSequences(1);
  const wire::MessageWriter message = EncodeList(sequence);
  const auto sent = socket.Send(message.bytes());
  if (!sent) return std::unexpected(sent.error());
  protocol::RecordWriter out;
  wire::DumpReader reader(sequence,
                          [&out](const wire::Message& answer) { return TakeCounter(answer, out); });
  const auto complete = wire::ReceiveDump(socket, reader);
  if (!complete) return std::unexpected(complete.error());
  if (!*complete) socket_.Close();
  return protocol::EndDump(reader.Finish(), std::move(out));
}

}  // namespace fairlead::acct
