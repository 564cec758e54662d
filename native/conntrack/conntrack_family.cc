#include "conntrack/conntrack_family.h"

#include <cerrno>

#include "wire/nfnetlink.h"

namespace fairlead::conntrack {

namespace {

ByteBuffer Refuse(const protocol::BadRecord& error, std::uint32_t op = 0) {
  const std::string words = protocol::Words(error);
  protocol::RecordWriter out;
  out.Append(protocol::reply::Failed{op, protocol::kUnknownIndex, EINVAL, words});
  return std::move(out.buffer());
}

/** Whether the error is the kernel's answer to a filter that it does not support. */
bool IsUnsupported(int error) noexcept { return error == EOPNOTSUPP || error == EINVAL; }

/** Reads and checks the only record of a buffer, of type R. */
template <typename R>
std::expected<R, protocol::BadRecord> ReadOnly(std::span<const std::uint8_t> buffer) {
  const auto request =
      protocol::ReadRequest<std::variant<R>>(buffer, [](const R& record) { return Check(record); });
  if (!request) return std::unexpected(request.error());
  return std::get<R>(*request);
}

}  // namespace

ConntrackFamily::ConntrackFamily() noexcept : NetlinkFamily(wire::NfnetlinkOptions()) {}

std::expected<ByteBuffer, SystemError> ConntrackFamily::RunOps(wire::Socket& socket,
                                                               std::span<const std::uint8_t> ops,
                                                               std::uint32_t first_op) {
  const auto request = ReadOnly<DeleteRequest>(ops);
  return request ? RunDelete(socket, *request) : Refuse(request.error(), first_op);
}

std::expected<ByteBuffer, SystemError> ConntrackFamily::RunRequest(
    wire::Socket& socket, std::span<const std::uint8_t> buffer) {
  const auto request = ReadOnly<DumpRequest>(buffer);
  if (!request) return Refuse(request.error());
  auto outcome = RunDump(socket, *request, filter_);
  if (outcome && filter_ == KernelFilter::kWanted && IsUnsupported(outcome->error)) {
    outcome = RunDump(socket, *request, KernelFilter::kNone);
    if (outcome && outcome->error == 0) filter_ = KernelFilter::kNone;
  }
  if (!outcome) return std::unexpected(outcome.error());
  return std::move(outcome->reply);
}

}  // namespace fairlead::conntrack
