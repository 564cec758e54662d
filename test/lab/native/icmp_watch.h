// Every ICMP error that this namespace receives, with the flow it is about. The kernel hands an
// error to raw sockets before the transport gets it (ip_protocol_deliver_rcu), so once a connect
// has failed the error that made it fail is waiting here.
#pragma once

#include <linux/icmp.h>
#include <linux/icmpv6.h>

#include <functional>
#include <string>
#include <utility>

#include "address.h"

namespace lab {

// Of one error. The addresses are those of our own packet.
struct IcmpError {
  int protocol = 0;
  uint16_t port = 0;
  Address to;
  std::string meaning;  // as `IcmpReason` in outcome.ts
  std::string from;
};

// RFC 792, RFC 1812; RFC 4443, where an unknown next header is a parameter problem.
inline std::string MeaningOf(int family, int type, int code) {
  const int both = type << 8 | code;
  if (family == AF_INET) {
    switch (both) {
      case ICMP_DEST_UNREACH << 8 | ICMP_NET_UNREACH:
        return "no-route";
      case ICMP_DEST_UNREACH << 8 | ICMP_HOST_UNREACH:
        return "host-unreachable";
      case ICMP_DEST_UNREACH << 8 | ICMP_PROT_UNREACH:
        return "protocol-unreachable";
      case ICMP_DEST_UNREACH << 8 | ICMP_PORT_UNREACH:
        return "port-unreachable";
      case ICMP_DEST_UNREACH << 8 | ICMP_NET_ANO:
      case ICMP_DEST_UNREACH << 8 | ICMP_HOST_ANO:
      case ICMP_DEST_UNREACH << 8 | ICMP_PKT_FILTERED:
        return "admin-prohibited";
      case ICMP_TIME_EXCEEDED << 8 | ICMP_EXC_TTL:
        return "time-exceeded";
      default:
        break;
    }
  } else {
    switch (both) {
      case ICMPV6_DEST_UNREACH << 8 | ICMPV6_NOROUTE:
        return "no-route";
      case ICMPV6_DEST_UNREACH << 8 | ICMPV6_ADM_PROHIBITED:
        return "admin-prohibited";
      case ICMPV6_DEST_UNREACH << 8 | ICMPV6_ADDR_UNREACH:
        return "host-unreachable";
      case ICMPV6_DEST_UNREACH << 8 | ICMPV6_PORT_UNREACH:
        return "port-unreachable";
      case ICMPV6_TIME_EXCEED << 8 | ICMPV6_EXC_HOPLIMIT:
        return "time-exceeded";
      case ICMPV6_PARAMPROB << 8 | ICMPV6_UNK_NEXTHDR:
        return "protocol-unreachable";
      default:
        break;
    }
  }
  return std::to_string(type) + "/" + std::to_string(code);
}

class IcmpWatch {
 public:
  // `Drain` passes each error to `report`. False, with errno, where raw sockets are not allowed.
  bool Open(std::function<void(const IcmpError&)> report) {
    report_ = std::move(report);
    v4_ = socket(AF_INET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_ICMP);
    v6_ = socket(AF_INET6, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_ICMPV6);
    if (v4_ < 0 || v6_ < 0) return false;
    // Both filters name what to drop: all but destination unreachable and time exceeded;
    // the informational half of ICMPv6, which starts at 128.
    const uint32_t v4_block = ~((1U << ICMP_DEST_UNREACH) | (1U << ICMP_TIME_EXCEEDED));
    const uint32_t v6_block[8] = {0, 0, 0, 0, ~0U, ~0U, ~0U, ~0U};
    constexpr int kRawIcmpFilter = 1;  // ICMP_FILTER, ICMPV6_FILTER
    return setsockopt(v4_, SOL_RAW, kRawIcmpFilter, &v4_block, sizeof(v4_block)) == 0 &&
           setsockopt(v6_, IPPROTO_ICMPV6, kRawIcmpFilter, v6_block, sizeof(v6_block)) == 0;
  }

  int v4() const { return v4_; }
  int v6() const { return v6_; }

  // Reports every error received before the call.
  void Drain() {
    for (const int fd : {v4_, v6_}) {
      uint8_t packet[2048];
      Address from;
      ssize_t size;
      while ((size = recvfrom(fd, packet, sizeof(packet), 0, from.raw(), &from.length)) > 0) {
        if (fd == v4_) {
          ReportV4(packet, static_cast<size_t>(size), from);
        } else {
          ReportV6(packet, static_cast<size_t>(size), from);
        }
        from = Address{};
      }
    }
  }

 private:
  // | IPv4 header | ICMP header (8) | IPv4 header of ours | first 8 bytes of our transport header |
  void ReportV4(const uint8_t* packet, size_t size, const Address& from) {
    const size_t outer = (packet[0] & 15U) * 4U;
    const uint8_t* icmp = packet + outer;
    if (size < outer + 8 + 20) return;
    const size_t inner = (icmp[8] & 15U) * 4U;
    if (size < outer + 8 + inner + 4) return;
    Report(icmp, icmp[8 + 9], AF_INET, icmp + 8 + 16, icmp + 8 + inner, from);
  }

  // | ICMPv6 header (8) | IPv6 header of ours (40) | start of our transport header |
  void ReportV6(const uint8_t* icmp, size_t size, const Address& from) {
    if (size < 8 + 40 + 4) return;
    Report(icmp, icmp[8 + 6], AF_INET6, icmp + 8 + 24, icmp + 8 + 40, from);
  }

  void Report(const uint8_t* icmp, uint8_t protocol, int family, const uint8_t* to,
              const uint8_t* ports_be, const Address& from) {
    IcmpError error;
    error.protocol = protocol;
    error.port = static_cast<uint16_t>(ports_be[0] << 8 | ports_be[1]);
    char host[INET6_ADDRSTRLEN];
    inet_ntop(family, to, host, sizeof(host));
    error.to.Parse(host, static_cast<uint16_t>(ports_be[2] << 8 | ports_be[3]));
    error.meaning = MeaningOf(family, icmp[0], icmp[1]);
    error.from = from.host();
    report_(error);
  }

  std::function<void(const IcmpError&)> report_;
  int v4_ = -1;
  int v6_ = -1;
};

}  // namespace lab
