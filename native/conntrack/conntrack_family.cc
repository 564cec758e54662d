#include "conntrack/conntrack_family.h"

#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>

#include <cerrno>

#include "conntrack/delete.h"
#include "protocol/record_reader.h"

namespace fairlead::conntrack {

namespace {

ByteBuffer Refuse(const protocol::DecodeError& error) {
  const std::string words = protocol::Words(error);
  protocol::RecordWriter out;
  out.Append(protocol::reply::Failed{0, protocol::kUnknownIndex, EINVAL, words});
  return std::move(out.buffer());
}

/** What the kernel says to a filter that it knows in part. */
bool IsUnsupported(int error) noexcept { return error == EOPNOTSUPP || error == EINVAL; }

/** The request of type R that `payload` holds, if it makes sense. */
template <typename R>
std::expected<R, protocol::DecodeError> ReadChecked(std::span<const std::uint8_t> payload) {
  const auto request = protocol::Read<R>(payload);
  if (!request) return std::unexpected(request.error());
  if (const auto checked = Check(*request); !checked) return std::unexpected(checked.error());
  return *request;
}

}  // namespace

ConntrackFamily::ConntrackFamily() noexcept
    : socket_({.protocol = NETLINK_NETFILTER, .family_header_bytes = sizeof(nfgenmsg)}) {}

bool ConntrackFamily::Handles(std::uint32_t code) const noexcept {
  return code == DumpRequest::kCode || code == DeleteRequest::kCode;
}

std::expected<ByteBuffer, SystemError> ConntrackFamily::Run(std::span<const std::uint8_t> buffer) {
  protocol::RecordReader reader(buffer);
  const auto record = reader.Next();
  if (!record) return Refuse(record.error());
  if (!reader.AtEnd()) return Refuse({"request", "buffer", "holds more than one"});
  if (record->code == DumpRequest::kCode) {
    const auto request = ReadChecked<DumpRequest>(record->payload);
    return request ? Dump(*request) : Refuse(request.error());
  }
  const auto request = ReadChecked<DeleteRequest>(record->payload);
  if (!request) return Refuse(request.error());
  const auto socket = socket_.Open();
  if (!socket) return std::unexpected(socket.error());
  auto reply = RunDelete(**socket, *request);
  if (!reply) socket_.Close();
  return reply;
}

std::expected<ByteBuffer, SystemError> ConntrackFamily::Dump(const DumpRequest& request) {
  const auto socket = socket_.Open();
  if (!socket) return std::unexpected(socket.error());
  auto outcome = RunDump(**socket, request, filter_);
  if (outcome && filter_ == KernelFilter::kWanted && IsUnsupported(outcome->error)) {
    outcome = RunDump(**socket, request, KernelFilter::kNone);
    if (outcome && outcome->error == 0) filter_ = KernelFilter::kNone;
  }
  if (!outcome || !outcome->complete) socket_.Close();
  if (!outcome) return std::unexpected(outcome.error());
  return std::move(outcome->reply);
}

}  // namespace fairlead::conntrack
