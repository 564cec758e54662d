#include "ipset/ipset_family.h"

#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>

#include <cerrno>
#include <string>
#include <utility>

#include "ipset/message.h"
#include "protocol/attempt.h"
#include "protocol/dump_answer.h"
#include "protocol/ops.gen.h"
#include "wire/dump_reader.h"

namespace fairlead::ipset {

namespace {

using protocol::kUnknownIndex;
using protocol::op::IpsetDestroy;
using protocol::request::IpsetPortsDump;
using protocol::request::IpsetsDump;

using OpResult = std::expected<void, protocol::DecodeError>;

OpResult TryDestroy(const protocol::Record& record, std::uint32_t index, wire::Pipeline& to) {
  const auto op = protocol::Read<IpsetDestroy>(record.payload);
  if (!op) return std::unexpected(op.error());
  const OpResult encoded = EncodeDestroy(*op, to.sequence(), to.out());
  if (encoded) to.Commit({index, kUnknownIndex});
  return encoded;
}

}  // namespace

IpsetFamily::IpsetFamily() noexcept
    : socket_({.protocol = NETLINK_NETFILTER, .family_header_bytes = sizeof(nfgenmsg)}) {}

bool IpsetFamily::Handles(std::uint32_t code) const noexcept {
  return code == IpsetDestroy::kCode || code == IpsetsDump::kCode || code == IpsetPortsDump::kCode;
}

std::expected<ByteBuffer, SystemError> IpsetFamily::Run(std::span<const std::uint8_t> buffer) {
  const auto socket = socket_.Open();
  if (!socket) return std::unexpected(socket.error());
  protocol::RecordReader reader(buffer);
  const auto first = reader.Next();
  if (first && first->code != IpsetDestroy::kCode) {
    if (!reader.AtEnd()) return protocol::RefuseDump({"request", "buffer", "holds more than one"});
    auto reply = Dump(**socket, *first);
    if (!reply) socket_.Close();
    return reply;
  }
  wire::Pipeline pipeline(**socket);
  auto reply = protocol::AttemptAll(buffer, pipeline, TryDestroy);
  if (!reply) socket_.Close();
  return reply;
}

std::expected<ByteBuffer, SystemError> IpsetFamily::Dump(wire::Socket& socket,
                                                         const protocol::Record& request) {
  const auto ports = protocol::Read<IpsetPortsDump>(request.payload);
  const bool is_ports = request.code == IpsetPortsDump::kCode;
  if (is_ports && !ports) return protocol::RefuseDump(ports.error());
  const std::uint32_t sequence = socket.next_sequence();
  socket.SkipSequences(1);
  const wire::MessageWriter message =
      is_ports ? EncodeListMembers(ports->set, sequence) : EncodeListHeaders(sequence);
  const auto sent = socket.Send(message.bytes());
  if (!sent) return std::unexpected(sent.error());
  protocol::RecordWriter out;
  wire::DumpReader reader(sequence, [&](const wire::Message& answer) {
    return is_ports ? TakePorts(answer, out) : TakeHeader(answer, out);
  });
  const auto complete = wire::ReceiveDump(socket, reader);
  if (!complete) return std::unexpected(complete.error());
  if (!*complete) socket_.Close();
  return protocol::EndDump(reader.Finish(), std::move(out));
}

}  // namespace fairlead::ipset
