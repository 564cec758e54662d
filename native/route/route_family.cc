#include "route/route_family.h"

#include <linux/netlink.h>
#include <linux/rtnetlink.h>

#include "protocol/attempt.h"
#include "protocol/dump_answer.h"
#include "route/link.h"
#include "route/ops.h"

namespace fairlead::route {

namespace {

using protocol::kUnknownIndex;

constexpr int kReceiveBufferBytes = 1024 * 1024;

/** The index of the link of an op. Earlier ops are sent first, since they may make the link. */
std::expected<LinkIndex, SystemError> IndexOf(const Addresses& op, wire::Socket& socket,
                                              wire::Pipeline& pipeline) {
  if (op.link.empty()) return LinkIndex{op.index, 0, ""};
  pipeline.Flush();
  return ResolveLink(socket, op.link);
}

protocol::Checked TryAddresses(const protocol::Record& record, std::uint32_t op_index,
                               wire::Socket& socket, wire::Pipeline& pipeline) {
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

}  // namespace

RouteFamily::RouteFamily(int receive_buffer_bytes) noexcept
    : NetlinkFamily({.protocol = NETLINK_ROUTE,
                     .receive_buffer_bytes =
                         receive_buffer_bytes > 0 ? receive_buffer_bytes : kReceiveBufferBytes,
                     .family_header_bytes = sizeof(ifinfomsg)}) {}

std::expected<ByteBuffer, SystemError> RouteFamily::RunOps(wire::Socket& socket,
                                                           std::span<const std::uint8_t> ops,
                                                           std::uint32_t first_op) {
  return protocol::AttemptAll(
      ops, first_op, socket,
      [&socket](const protocol::Record& record, std::uint32_t index, wire::Pipeline& to) {
        return protocol::IsOneOf<AddressesOp>(record.code)
                   ? TryAddresses(record, index, socket, to)
                   : protocol::AttemptMessage<LinkOp>(record, index, to, LinkEncoder());
      });
}

std::expected<ByteBuffer, SystemError> RouteFamily::RunRequest(
    wire::Socket& socket, std::span<const std::uint8_t> buffer) {
  const auto request = ReadRequest(buffer);
  return request ? route::RunRequest(socket, *request) : protocol::RefuseDump(request.error());
}

}  // namespace fairlead::route
