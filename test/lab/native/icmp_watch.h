// Prints every ICMP error that this namespace receives, with the flow it is about. The kernel hands
// an error to raw sockets before the transport gets it (ip_protocol_deliver_rcu), so once a
// connect has failed the error that made it fail is waiting here.
#pragma once

#include <linux/icmp.h>
#include <linux/icmpv6.h>
#include <poll.h>

#include <mutex>
#include <string>
#include <thread>

#include "address.h"

namespace probe {

class IcmpWatch {
 public:
  // Prints from now on, without delay. False, with errno, where raw sockets are not allowed.
  bool Start() {
    v4_ = socket(AF_INET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_ICMP);
    v6_ = socket(AF_INET6, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_ICMPV6);
    if (v4_ < 0 || v6_ < 0) return false;
    // Both filters name what to drop: all but destination unreachable and time exceeded;
    // the informational half of ICMPv6, which starts at 128.
    const uint32_t v4_block = ~((1U << ICMP_DEST_UNREACH) | (1U << ICMP_TIME_EXCEEDED));
    const uint32_t v6_block[8] = {0, 0, 0, 0, ~0U, ~0U, ~0U, ~0U};
    constexpr int kRawIcmpFilter = 1;  // ICMP_FILTER, ICMPV6_FILTER
    if (setsockopt(v4_, SOL_RAW, kRawIcmpFilter, &v4_block, sizeof(v4_block)) != 0 ||
        setsockopt(v6_, IPPROTO_ICMPV6, kRawIcmpFilter, v6_block, sizeof(v6_block)) != 0) {
      return false;
    }
    std::thread([this] {
      pollfd polls[] = {{v4_, POLLIN, 0}, {v6_, POLLIN, 0}};
      while (poll(polls, 2, -1) > 0) Drain();
    }).detach();
    return true;
  }

  // Returns when every error received before the call has been printed.
  void Drain() {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const int fd : {v4_, v6_}) {
      uint8_t packet[2048];
      Address from;
      ssize_t size;
      while ((size = recvfrom(fd, packet, sizeof(packet), 0, from.raw(), &from.length)) > 0) {
        if (fd == v4_) {
          PrintV4(packet, static_cast<size_t>(size), from);
        } else {
          PrintV6(packet, static_cast<size_t>(size), from);
        }
      }
    }
  }

 private:
  // | IPv4 header | ICMP header (8) | IPv4 header of ours | first 8 bytes of our transport header |
  static void PrintV4(const uint8_t* packet, size_t size, const Address& from) {
    const size_t outer = (packet[0] & 15U) * 4U;
    const uint8_t* icmp = packet + outer;
    if (size < outer + 8 + 20) return;
    const size_t inner = (icmp[8] & 15U) * 4U;
    if (size < outer + 8 + inner + 4) return;
    Print(icmp, icmp[8 + 9], AF_INET, icmp + 8 + 16, icmp + 8 + inner, from);
  }

  // | ICMPv6 header (8) | IPv6 header of ours (40) | start of our transport header |
  static void PrintV6(const uint8_t* icmp, size_t size, const Address& from) {
    if (size < 8 + 40 + 4) return;
    Print(icmp, icmp[8 + 6], AF_INET6, icmp + 8 + 24, icmp + 8 + 40, from);
  }

  static void Print(const uint8_t* icmp, uint8_t protocol, int family, const uint8_t* to,
                    const uint8_t* ports_be, const Address& from) {
    char host[INET6_ADDRSTRLEN];
    inet_ntop(family, to, host, sizeof(host));
    std::printf(
        "{\"icmp\":{\"type\":%u,\"code\":%u,\"protocol\":%u,\"port\":%d,\"to\":\"%s\",\"toPort\":%"
        "d,"
        "\"from\":\"%s\"}}\n",
        icmp[0], icmp[1], protocol, ports_be[0] << 8 | ports_be[1], host,
        ports_be[2] << 8 | ports_be[3], from.host().c_str());
    std::fflush(stdout);
  }

  std::mutex mutex_;
  int v4_ = -1;
  int v6_ = -1;
};

}  // namespace probe
