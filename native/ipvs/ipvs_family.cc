#include "ipvs/ipvs_family.h"

#include <linux/genetlink.h>
#include <linux/netlink.h>

#include "ipvs/dump.h"
#include "ipvs/ops.h"
#include "protocol/attempt.h"
#include "protocol/dump_answer.h"
#include "protocol/ops.gen.h"

namespace fairlead::ipvs {

namespace {

constexpr int kReceiveBufferBytes = 1024 * 1024;

ByteBuffer RefusedOps(const FamilyId& family) {
  protocol::RecordWriter out;
  out.Append(protocol::reply::Failed{protocol::kUnknownIndex, protocol::kUnknownIndex,
                          static_cast<std::uint32_t>(family.error), family.words});
  return std::move(out.buffer());
}

std::expected<ByteBuffer, SystemError> RunOps(wire::Socket& socket, std::uint16_t family_id,
                                              std::span<const std::uint8_t> ops) {
  wire::Pipeline pipeline(socket);
  return protocol::AttemptAll(
      ops, pipeline,
      [family_id](const protocol::Record& record, std::uint32_t index, wire::Pipeline& to) {
        auto encoded = EncodeOp(record, {family_id, to.sequence()}, to.out());
        if (encoded) to.Commit({index, protocol::kUnknownIndex});
        return encoded;
      });
}

}  // namespace

IpvsFamily::IpvsFamily(int receive_buffer_bytes) noexcept
    : socket_({.protocol = NETLINK_GENERIC,
               .receive_buffer_bytes =
                   receive_buffer_bytes > 0 ? receive_buffer_bytes : kReceiveBufferBytes,
               .family_header_bytes = GENL_HDRLEN}) {}

bool IpvsFamily::Handles(std::uint32_t code) const noexcept {
  return IsOp(code) || IsRequest(code);
}

std::expected<ByteBuffer, SystemError> IpvsFamily::Run(std::span<const std::uint8_t> buffer) {
  const auto socket = socket_.Open();
  if (!socket) return std::unexpected(socket.error());
  // Anew each time: the number changes when the module is unloaded and loaded again.
  const auto family = ResolveFamily(**socket);
  if (!family) {
    socket_.Close();
    return std::unexpected(family.error());
  }
  const auto first = protocol::RecordReader(buffer).Next();
  if (first && IsRequest(first->code)) return RunRequest(**socket, *family, buffer);
  if (family->id == 0) return RefusedOps(*family);
  auto reply = RunOps(**socket, family->id, buffer);
  if (!reply) socket_.Close();
  return reply;
}

std::expected<ByteBuffer, SystemError> IpvsFamily::RunRequest(
    wire::Socket& socket, const FamilyId& family, std::span<const std::uint8_t> buffer) {
  const auto request = ReadRequest(buffer);
  if (!request) return protocol::RefuseDump(request.error());
  if (family.id == 0) {
    return protocol::EndDump({.error = family.error, .words = family.words}, {});
  }
  auto outcome = ipvs::RunRequest(socket, family.id, *request);
  if (!outcome || !outcome->complete) socket_.Close();
  if (!outcome) return std::unexpected(outcome.error());
  return std::move(outcome->reply);
}

}  // namespace fairlead::ipvs
