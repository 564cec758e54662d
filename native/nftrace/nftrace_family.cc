#include "nftrace/nftrace_family.h"

#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "nftrace/event.h"
#include "protocol/dump_answer.h"

namespace fairlead::nftrace {

namespace {

using Request = std::variant<protocol::request::NftraceRead>;

/** Room for some thousand events. Each takes about 1 KiB with its overhead. */
constexpr int kReceiveBufferBytes = 8 * 1024 * 1024;
/**
 * The longest wait of a request. During it the thread serves no other request, and does not end.
 */
constexpr std::uint32_t kWaitMsMax = 1000;
/** Most events in one answer. The next answer has the others. */
constexpr int kDatagramsMax = 4096;

/** Reads the events that have come. Waits up to `wait_ms` for the first. */
std::expected<ByteBuffer, SystemError> Read(wire::Socket& socket, int wait_ms) {
  protocol::RecordWriter out;
  wire::DumpEnd end;
  for (int count = 0; count < kDatagramsMax; ++count) {
    const auto received = socket.Receive(count == 0 ? wait_ms : 0);
    if (!received) return std::unexpected(received.error());
    if (received->outcome == wire::Socket::Outcome::kNothing) break;
    if (received->outcome == wire::Socket::Outcome::kOverrun) {
      end.overrun = true;
      continue;
    }
    wire::MessageReader reader(received->datagram);
    while (const auto message = reader.Next()) {
      auto taken = TakeEvent(*message, out);
      if (!taken && end.error == 0) {
        end.error = EPROTO;
        end.words = std::move(taken.error());
      }
    }
  }
  return protocol::EndDump(end, std::move(out));
}

}  // namespace

NftraceFamily::NftraceFamily() noexcept
    : NetlinkFamily({.protocol = NETLINK_NETFILTER,
                     .group = NFNLGRP_NFTRACE,
                     .receive_buffer_bytes = kReceiveBufferBytes,
                     .family_header_bytes = sizeof(nfgenmsg)}) {}

std::expected<ByteBuffer, SystemError> NftraceFamily::RunRequest(
    wire::Socket& socket, std::span<const std::uint8_t> buffer) {
  const auto request = protocol::ReadRequest<Request>(buffer);
  if (!request) return protocol::RefuseDump(request.error());
  const std::uint32_t wait_ms = std::get<0>(*request).wait_ms;
  return Read(socket, static_cast<int>(std::min(wait_ms, kWaitMsMax)));
}

}  // namespace fairlead::nftrace
