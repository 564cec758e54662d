#include "bytes/bytes_family.h"

#include <linux/netfilter/nfnetlink_conntrack.h>
#include <linux/sock_diag.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "conntrack/entry.h"
#include "conntrack/message.h"
#include "protocol/dump_answer.h"

namespace fairlead::bytes {

namespace {

using Clock = std::chrono::steady_clock;
using Request = std::variant<protocol::request::BytesRead>;

constexpr std::size_t kRowsMax = 65536;
/**
 * Room for the events of half a second at 20,000 a second, about 1 KiB each, which the kernel takes
 * only while they wait. With NETLINK_BROADCAST_ERROR it would keep the entries of events without
 * room instead of losing these: a process that is stopped would fill connection tracking.
 */
constexpr int kReceiveBufferBytes = 8 * 1024 * 1024;
/** During a request the thread serves no other one, and does not end. */
constexpr std::uint32_t kWaitMsMax = 1000;
/** The sleep after all events were read: to wake up for each would take longer than to read it. */
constexpr int kRestMs = 10;

std::uint64_t BytesOf(std::span<const std::uint8_t> counters) noexcept {
  return wire::AttrTable<CTA_COUNTERS_MAX>(counters).U64Be(CTA_COUNTERS_BYTES);
}

/** Reads events for `wait_ms`. */
std::expected<void, SystemError> ReadEvents(wire::Socket& socket, std::uint32_t wait_ms,
                                            Sums& sums) {
  const auto until = Clock::now() + std::chrono::milliseconds(wait_ms);
  for (bool waits = true;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
    if (left <= 0) return {};
    const auto received = socket.Receive(waits ? static_cast<int>(left) : 0);
    if (!received) return std::unexpected(received.error());
    const bool is_nothing = received->outcome == wire::Socket::Outcome::kNothing;
    if (is_nothing && waits) return {};
    waits = is_nothing;
    if (is_nothing) ::poll(nullptr, 0, std::min(kRestMs, static_cast<int>(left)));
    wire::MessageReader reader(received->datagram);
    while (const auto message = reader.Next()) sums.Take(*message);
  }
}

/** 32 bits that wrap. */
std::uint32_t Dropped(const wire::Socket& socket) noexcept {
  std::array<std::uint32_t, SK_MEMINFO_VARS> info{};
  socklen_t length = sizeof(info);
  static_cast<void>(::getsockopt(socket.fd(), SOL_SOCKET, SO_MEMINFO, info.data(), &length));
  return info[SK_MEMINFO_DROPS];
}

}  // namespace

void Sums::Take(const wire::Message& message) {
  const auto attributes = wire::AttributesOf(message, sizeof(nfgenmsg));
  if (!attributes || message.type != conntrack::MessageType(IPCTNL_MSG_CT_DELETE)) return;
  const auto entry = conntrack::DecodeEntry(message.payload[0], *attributes);
  const wire::AttrTable<CTA_MAX> table(*attributes);
  if (!entry || !table.Has(CTA_COUNTERS_ORIG)) {
    ++missed_;
    return;
  }
  const auto& [original, reply, tcp_state, zone, status, id] = *entry;
  const auto& [to, from] = std::pair(original.destination, reply.source);
  const bool is_translated = !std::ranges::equal(to.address, from.address) ||
                             !std::ranges::equal(to.port, from.port);
  if (!is_translated || zone != 0 || original.zone != 0 || reply.zone != 0) return;
  const Key key(original.protocol, wire::ReadU16Be(to.port, 0),
                {to.address.begin(), to.address.end()}, {from.address.begin(), from.address.end()});
  if (rows_.size() == kRowsMax && !rows_.contains(key)) {
    ++missed_;
    return;
  }
  auto& [from_clients, to_clients] = rows_[key];
  from_clients += BytesOf(table.Bytes(CTA_COUNTERS_ORIG));
  to_clients += BytesOf(table.Bytes(CTA_COUNTERS_REPLY));
}

void Sums::Append(std::uint32_t lost, protocol::RecordWriter& out) const {
  for (const auto& [key, bytes] : rows_) {
    const auto& [number, port, frontend, endpoint] = key;
    out.Append(
        protocol::reply::BytesOfEnded{number, port, frontend, endpoint, bytes[0], bytes[1]});
  }
  out.Append(protocol::reply::BytesMissed{missed_ + lost});
}

BytesFamily::BytesFamily() noexcept
    : NetlinkFamily({.protocol = NETLINK_NETFILTER,
                     .group = NFNLGRP_CONNTRACK_DESTROY,
                     .receive_buffer_bytes = kReceiveBufferBytes,
                     .family_header_bytes = sizeof(nfgenmsg)}) {}

std::expected<ByteBuffer, SystemError> BytesFamily::RunRequest(
    wire::Socket& socket, std::span<const std::uint8_t> buffer) {
  const auto request = protocol::ReadRequest<Request>(buffer);
  if (!request) return protocol::RefuseDump(request.error());
  Sums sums;
  const std::uint32_t wait_ms = std::get<0>(*request).wait_ms;
  const auto read = ReadEvents(socket, std::min(wait_ms, kWaitMsMax), sums);
  if (!read) return std::unexpected(read.error());
  const std::uint32_t before = std::exchange(dropped_, Dropped(socket));
  // A new socket counts from 0.
  const std::uint32_t lost = dropped_ - (dropped_ < before ? 0 : before);
  protocol::RecordWriter out;
  sums.Append(lost, out);
  return protocol::EndDump({}, std::move(out));
}

}  // namespace fairlead::bytes
