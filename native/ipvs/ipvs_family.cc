#include "ipvs/ipvs_family.h"

#include "ipvs/family_id.h"
#include "protocol/attempt.h"
#include "protocol/dump_answer.h"

namespace fairlead::ipvs {

namespace {

constexpr int kReceiveBufferBytes = 1024 * 1024;

ByteBuffer RefusedOps(const FamilyId& family) {
  protocol::RecordWriter out;
  out.Append(protocol::reply::Failed{protocol::kUnknownIndex, protocol::kUnknownIndex,
                                     static_cast<std::uint32_t>(family.error), family.words});
  return std::move(out.buffer());
}

}  // namespace

IpvsFamily::IpvsFamily(int receive_buffer_bytes) noexcept
    : NetlinkFamily({.protocol = NETLINK_GENERIC,
                     .receive_buffer_bytes =
                         receive_buffer_bytes > 0 ? receive_buffer_bytes : kReceiveBufferBytes,
                     .family_header_bytes = GENL_HDRLEN}) {}

// Each buffer asks for the number of the family, which changes when the module is loaded again.

std::expected<ByteBuffer, SystemError> IpvsFamily::RunOps(wire::Socket& socket,
                                                          std::span<const std::uint8_t> ops,
                                                          std::uint32_t first_op) {
  const auto family = ResolveFamily(socket);
  if (!family) return std::unexpected(family.error());
  if (family->id == 0) return RefusedOps(*family);
  return protocol::AttemptMessages<Op>(
      ops, first_op, socket,
      [&family](const Op& op, std::uint32_t sequence, wire::MessageWriter& out) {
        return EncodeOp(op, {family->id, sequence}, out);
      });
}

std::expected<ByteBuffer, SystemError> IpvsFamily::RunRequest(
    wire::Socket& socket, std::span<const std::uint8_t> buffer) {
  const auto family = ResolveFamily(socket);
  if (!family) return std::unexpected(family.error());
  const auto request = ReadRequest(buffer);
  if (!request) return protocol::RefuseDump(request.error());
  if (family->id == 0) {
    return protocol::EndDump({.error = family->error, .words = family->words}, {});
  }
  return ipvs::RunRequest(socket, family->id, *request);
}

}  // namespace fairlead::ipvs
