#include "ipvs/ipvs_family.h"

#include <linux/genetlink.h>
#include <linux/netlink.h>

#include "ipvs/family_id.h"
#include "ipvs/ops.h"
#include "protocol/attempt.h"
#include "protocol/ops.gen.h"

namespace fairlead::ipvs {

namespace {

constexpr int kReceiveBufferBytes = 1024 * 1024;

ByteBuffer Refuse(const FamilyId& family) {
  protocol::RecordWriter out;
  protocol::reply::Failed{protocol::kUnknownIndex, protocol::kUnknownIndex,
                          static_cast<std::uint32_t>(family.error), family.words}
      .Write(out);
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
    : receive_buffer_bytes_(receive_buffer_bytes > 0 ? receive_buffer_bytes : kReceiveBufferBytes) {
}

bool IpvsFamily::Handles(std::uint32_t code) const noexcept { return IsOp(code); }

std::expected<wire::Socket*, SystemError> IpvsFamily::OpenSocket() {
  if (!socket_) {
    auto opened = wire::Socket::Open({.protocol = NETLINK_GENERIC,
                                      .receive_buffer_bytes = receive_buffer_bytes_,
                                      .family_header_bytes = GENL_HDRLEN});
    if (!opened) return std::unexpected(opened.error());
    socket_.emplace(std::move(*opened));
  }
  return &*socket_;
}

std::expected<ByteBuffer, SystemError> IpvsFamily::Run(std::span<const std::uint8_t> buffer) {
  const auto socket = OpenSocket();
  if (!socket) return std::unexpected(socket.error());
  // Anew each time: the number changes when the module is unloaded and loaded again.
  const auto family = ResolveFamily(**socket);
  if (family && family->id == 0) return Refuse(*family);
  auto reply = family ? RunOps(**socket, family->id, buffer)
                      : std::expected<ByteBuffer, SystemError>(std::unexpected(family.error()));
  if (!reply) socket_.reset();
  return reply;
}

}  // namespace fairlead::ipvs
