#include "route/route_family.h"

#include <linux/netlink.h>
#include <linux/rtnetlink.h>

#include "protocol/attempt.h"
#include "protocol/dump_answer.h"
#include "protocol/ops.gen.h"
#include "route/dump.h"
#include "route/link.h"
#include "route/ops.h"

namespace fairlead::route {

namespace {

using protocol::kUnknownIndex;
using OpResult = std::expected<void, protocol::DecodeError>;

constexpr int kReceiveBufferBytes = 1024 * 1024;

/** The index of the link that an op names, asked for after all that was to be done before. */
std::expected<LinkIndex, SystemError> IndexOf(const Addresses& op, wire::Socket& socket,
                                              wire::Pipeline& pipeline) {
  if (op.link.empty()) return LinkIndex{op.index, 0, ""};
  pipeline.Flush();
  return ResolveLink(socket, op.link);
}

OpResult TryAddresses(const protocol::Record& record, std::uint32_t op_index, wire::Socket& socket,
                      wire::Pipeline& pipeline) {
  const auto op = ReadAddresses(record);
  if (!op) return std::unexpected(op.error());
  const auto link = IndexOf(*op, socket, pipeline);
  if (!link) {
    pipeline.Break(link.error());
    return {};
  }
  if (link->index == 0) {
    pipeline.Fail({op_index, kUnknownIndex}, link->error, link->words);
    return {};
  }
  for (std::size_t entry = 0; entry < op->count(); ++entry) {
    EncodeAddress(*op, entry, link->index, pipeline.sequence(), pipeline.out());
    pipeline.Commit({op_index, static_cast<std::uint32_t>(entry)});
  }
  return {};
}

std::expected<ByteBuffer, SystemError> RunOps(wire::Socket& socket,
                                              std::span<const std::uint8_t> ops) {
  wire::Pipeline pipeline(socket);
  return protocol::AttemptAll(
      ops, pipeline,
      [&socket](const protocol::Record& record, std::uint32_t index, wire::Pipeline& to) {
        if (!IsLinkOp(record.code)) return TryAddresses(record, index, socket, to);
        OpResult encoded = EncodeLinkOp(record, to.sequence(), to.out());
        if (encoded) to.Commit({index, kUnknownIndex});
        return encoded;
      });
}

}  // namespace

RouteFamily::RouteFamily(int receive_buffer_bytes) noexcept
    : socket_({.protocol = NETLINK_ROUTE,
               .receive_buffer_bytes =
                   receive_buffer_bytes > 0 ? receive_buffer_bytes : kReceiveBufferBytes,
               .family_header_bytes = sizeof(ifinfomsg)}) {}

bool RouteFamily::Handles(std::uint32_t code) const noexcept {
  return IsOp(code) || IsRequest(code);
}

std::expected<ByteBuffer, SystemError> RouteFamily::Run(std::span<const std::uint8_t> buffer) {
  const auto socket = socket_.Open();
  if (!socket) return std::unexpected(socket.error());
  const auto first = protocol::RecordReader(buffer).Next();
  if (first && IsRequest(first->code)) return RunRequest(**socket, buffer);
  auto reply = RunOps(**socket, buffer);
  if (!reply) socket_.Close();
  return reply;
}

std::expected<ByteBuffer, SystemError> RouteFamily::RunRequest(
    wire::Socket& socket, std::span<const std::uint8_t> buffer) {
  const auto request = ReadRequest(buffer);
  if (!request) return protocol::RefuseDump(request.error());
  auto outcome = route::RunRequest(socket, *request);
  if (!outcome || !outcome->complete) socket_.Close();
  if (!outcome) return std::unexpected(outcome.error());
  return std::move(outcome->reply);
}

}  // namespace fairlead::route
