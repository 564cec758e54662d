#include "bytes/bytes_family.h"

#include <linux/in.h>
#include <linux/netfilter/nf_conntrack_common.h>
#include <linux/netfilter/nf_conntrack_tcp.h>
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
#include "wire/byte_order.h"

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

constexpr std::uint64_t kNsPerMs = 1'000'000;
constexpr std::uint64_t kMsPerSecond = 1000;
/** Places in `timers` behind those of TCP states. */
enum : std::size_t { kUdpTimer = TCP_CONNTRACK_LISTEN + 1, kUdpStreamTimer };
/** Places in `flowOutcomes`. */
enum : std::uint8_t { kAnswered, kReset, kNoAnswer };

/** The number at a place of packed ones; 0 where there is none. */
std::uint32_t At(std::span<const std::uint8_t> packed, std::size_t i) noexcept {
  constexpr std::size_t kBytes = sizeof(std::uint32_t);
  const bool is_there = (i + 1) * kBytes <= packed.size();
  return is_there ? wire::LoadHost<std::uint32_t>(packed.data() + i * kBytes) : 0;
}

std::uint64_t BytesOf(std::span<const std::uint8_t> counters) noexcept {
  return wire::AttrTable<CTA_COUNTERS_MAX>(counters).U64Be(CTA_COUNTERS_BYTES);
}

std::uint8_t OutcomeOf(const conntrack::Entry& entry) noexcept {
  const bool is_tcp = entry.original.protocol == IPPROTO_TCP;
  if ((entry.status & (is_tcp ? IPS_ASSURED : IPS_SEEN_REPLY)) != 0) return kAnswered;
  return is_tcp && entry.tcp_state == TCP_CONNTRACK_CLOSE ? kReset : kNoAnswer;
}

/** From the first packet to the last: the kernel's timer is taken off. -1: it has no times. */
std::int64_t DurationMs(const conntrack::Entry& entry, std::span<const std::uint8_t> timestamps,
                        std::span<const std::uint8_t> timers) noexcept {
  const wire::AttrTable<CTA_TIMESTAMP_MAX> times(timestamps);
  if (!times.Has(CTA_TIMESTAMP_START) || !times.Has(CTA_TIMESTAMP_STOP)) return -1;
  const std::uint64_t start = times.U64Be(CTA_TIMESTAMP_START);
  // The clock may have been set back.
  const std::uint64_t stop = std::max(start, times.U64Be(CTA_TIMESTAMP_STOP));
  const std::uint64_t ms = (stop - start) / kNsPerMs;
  std::uint32_t timer = 0;
  if (entry.original.protocol == IPPROTO_TCP) {
    timer = At(timers, entry.tcp_state);
  } else if (entry.original.protocol == IPPROTO_UDP) {
    timer = At(timers, (entry.status & IPS_ASSURED) != 0 ? kUdpStreamTimer : kUdpTimer);
  }
  return static_cast<std::int64_t>(ms - std::min(ms, timer * kMsPerSecond));
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
  const std::int64_t ms = DurationMs(*entry, table.Bytes(CTA_TIMESTAMP), asked_.timers);
  const Bytes bytes{BytesOf(table.Bytes(CTA_COUNTERS_ORIG)),
                    BytesOf(table.Bytes(CTA_COUNTERS_REPLY))};
  const std::uint16_t port = wire::ReadU16Be(to.port, 0);
  Keep(*entry, bytes, ms);
  const Key key(original.protocol, port, {to.address.begin(), to.address.end()},
                {from.address.begin(), from.address.end()});
  if (rows_.size() == kRowsMax && !rows_.contains(key)) {
    ++missed_;
    return;
  }
  Row& row = rows_[key];
  for (std::size_t i = 0; i < bytes.size(); ++i) row.bytes[i] += bytes[i];
  if (ms < 0) return;
  const std::size_t bounds = asked_.bounds.size() / sizeof(std::uint32_t);
  row.durations.resize(bounds + 1);
  std::size_t at = 0;
  while (at < bounds && ms > At(asked_.bounds, at)) ++at;
  ++row.durations[at];
  row.ms += static_cast<std::uint64_t>(ms);
}

void Sums::Keep(const conntrack::Entry& entry, const Bytes& bytes, std::int64_t ms) {
  const std::uint8_t outcome = OutcomeOf(entry);
  if (asked_.flows == 0 || (asked_.failed != 0 && outcome == kAnswered)) return;
  ++flows_seen_;
  std::size_t at = flows_.size();
  if (at < asked_.flows) {
    flows_.emplace_back();
  } else {
    at = std::uniform_int_distribution<std::uint64_t>(0, flows_seen_ - 1)(random_);
  }
  if (at >= flows_.size()) return;
  const auto& [client, frontend] = std::pair(entry.original.source, entry.original.destination);
  const auto& endpoint = entry.reply.source;
  auto& [record, of_client, of_frontend, of_endpoint] = flows_[at];
  record.protocol = entry.original.protocol;
  record.client_port = wire::ReadU16Be(client.port, 0);
  record.port = wire::ReadU16Be(frontend.port, 0);
  record.endpoint_port = wire::ReadU16Be(endpoint.port, 0);
  record.in = bytes[0];
  record.out = bytes[1];
  record.outcome = outcome;
  record.is_timed = ms < 0 ? 0 : 1;
  record.ms = ms < 0 ? 0 : static_cast<std::uint64_t>(ms);
  of_client.assign(client.address.begin(), client.address.end());
  of_frontend.assign(frontend.address.begin(), frontend.address.end());
  of_endpoint.assign(endpoint.address.begin(), endpoint.address.end());
}

void Sums::Append(std::uint32_t lost, protocol::RecordWriter& out) const {
  for (const auto& [key, row] : rows_) {
    const auto& [number, port, frontend, endpoint] = key;
    const auto* durations = reinterpret_cast<const std::uint8_t*>(row.durations.data());
    out.Append(protocol::reply::BytesOfEnded{
        number, port, frontend, endpoint, row.bytes[0], row.bytes[1],
        {durations, row.durations.size() * sizeof(std::uint32_t)}, row.ms});
  }
  for (const auto& [kept, client, frontend, endpoint] : flows_) {
    auto record = kept;
    record.client = client;
    record.frontend = frontend;
    record.endpoint = endpoint;
    out.Append(record);
  }
  out.Append(protocol::reply::BytesMissed{missed_ + lost, flows_seen_ - flows_.size()});
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
  const auto& asked = std::get<0>(*request);
  Sums sums(asked);
  const auto read = ReadEvents(socket, std::min(asked.wait_ms, kWaitMsMax), sums);
  if (!read) return std::unexpected(read.error());
  const std::uint32_t before = std::exchange(dropped_, Dropped(socket));
  // A new socket counts from 0.
  const std::uint32_t lost = dropped_ - (dropped_ < before ? 0 : before);
  protocol::RecordWriter out;
  sums.Append(lost, out);
  return protocol::EndDump({}, std::move(out));
}

}  // namespace fairlead::bytes
