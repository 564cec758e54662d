// SCTP by raw packets, for kernels without it: the four-way handshake and DATA of RFC 9260, as
// much as connection tracking and NAT look at. No retransmission: nothing gets lost in a lab.
#pragma once

#include <chrono>
#include <map>
#include <random>
#include <string>
#include <thread>

#include "address.h"

namespace lab {

enum SctpChunk : uint8_t {
  kData = 0,
  kInit = 1,
  kInitAck = 2,
  kAbort = 6,
  kCookieEcho = 10,
  kCookieAck = 11,
};

// One packet with one chunk. Ports and tag in host order.
struct SctpPacket {
  uint32_t tag = 0;
  uint8_t type = 0;
  uint8_t flags = 0;
  std::string body;
};

inline std::string Be(uint32_t value, int bytes) {
  std::string out;
  for (int i = bytes - 1; i >= 0; i--) out += static_cast<char>(value >> (8 * i) & 255U);
  return out;
}

inline uint32_t ReadBe(const std::string& in, size_t at, size_t bytes) {
  uint32_t value = 0;
  for (size_t i = at; i < at + bytes; i++) value = value << 8 | static_cast<uint8_t>(in[i]);
  return value;
}

// A raw socket bound to one address receives exactly the SCTP packets for that address.
class SctpEnd {
 public:
  ~SctpEnd() {
    if (fd_ >= 0) close(fd_);
  }

  // Returns an errno, 0 for success.
  int Bind(const Address& own) {
    own_ = own;
    Address at = own;
    at.set_port(0);  // for raw sockets the port field is the protocol
    fd_ = socket(own.family(), SOCK_RAW | SOCK_CLOEXEC, IPPROTO_SCTP);
    return fd_ >= 0 && bind(fd_, at.raw(), at.length) == 0 ? 0 : errno;
  }

  // | source port 2 | destination port 2 | tag 4 | CRC32c 4 | type 1 | flags 1 | length 2 | body |
  int Send(const Address& peer, const SctpPacket& packet) {
    const std::string ports = Be(own_.port(), 2) + Be(peer.port(), 2);
    const auto length = static_cast<uint32_t>(packet.body.size() + 4);
    std::string chunk = Be(packet.type, 1) + Be(packet.flags, 1) + Be(length, 2) + packet.body;
    chunk.resize((chunk.size() + 3) / 4 * 4);
    const std::string tag = Be(packet.tag, 4);
    const std::string bytes = ports + tag + Be(Crc32c(ports + tag + Be(0, 4) + chunk), 4) + chunk;
    Address to = peer;
    to.set_port(0);
    return sendto(fd_, bytes.data(), bytes.size(), 0, to.raw(), to.length) < 0 ? errno : 0;
  }

  // The next well-formed packet for our port; EAGAIN after `timeout_ms`, never when that is 0.
  int Receive(int64_t timeout_ms, Address* peer, SctpPacket* packet) {
    using Clock = std::chrono::steady_clock;
    const auto end = Clock::now() + std::chrono::milliseconds(timeout_ms);
    while (timeout_ms == 0 || Clock::now() < end) {
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now());
      SetTimeouts(fd_, timeout_ms == 0 ? 0 : left.count() + 1);
      char buffer[2048];
      *peer = Address{};
      const ssize_t size = recvfrom(fd_, buffer, sizeof(buffer), 0, peer->raw(), &peer->length);
      if (size < 0 && errno != EINTR) return errno;
      // Raw IPv4 sockets deliver the IP header too, raw IPv6 sockets do not.
      const ssize_t start = peer->family() == AF_INET ? (buffer[0] & 15) * 4 : 0;
      if (size < start + 16) continue;
      if (Parse(std::string(buffer + start, buffer + size), peer, packet)) return 0;
    }
    return EAGAIN;
  }

 private:
  bool Parse(std::string bytes, Address* peer, SctpPacket* packet) const {
    const uint32_t crc = ReadBe(bytes, 8, 4);
    const size_t length = ReadBe(bytes, 14, 2);
    bytes.replace(8, 4, 4, '\0');
    // A wrong checksum means a translation that did not recompute it: drop, as a real stack does.
    if (Crc32c(bytes) != crc || length < 4 || bytes.size() < 12 + length) return false;
    if (ReadBe(bytes, 2, 2) != own_.port()) return false;
    peer->set_port(static_cast<uint16_t>(ReadBe(bytes, 0, 2)));
    *packet = SctpPacket{ReadBe(bytes, 4, 4), static_cast<uint8_t>(bytes[12]),
                         static_cast<uint8_t>(bytes[13]), bytes.substr(16, length - 4)};
    return true;
  }

  // Castagnoli polynomial, reflected; on the wire least significant byte first.
  static uint32_t Crc32c(const std::string& bytes) {
    uint32_t crc = ~0U;
    for (const char byte : bytes) {
      crc ^= static_cast<uint8_t>(byte);
      for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ ((crc & 1U) != 0 ? 0x82F63B78U : 0U);
    }
    return __builtin_bswap32(~crc);
  }

  Address own_;
  int fd_ = -1;
};

class SctpRaw : public Association {
 public:
  int Open(const Address& own, const Address& to, int64_t timeout_ms) override {
    peer_ = to;
    own_tag_ = RandomTag();
    if (const int error = end_.Bind(own)) return error;
    std::string reply;
    if (const int error = Exchange({0, kInit, 0, InitBody(own_tag_)}, kInitAck, timeout_ms, &reply))
      return error;
    peer_tag_ = ReadBe(reply, 0, 4);
    const SctpPacket echo{peer_tag_, kCookieEcho, 0, reply.substr(kCookieAt)};
    return Exchange(echo, kCookieAck, timeout_ms, &reply);
  }

  int Ask(int64_t timeout_ms, std::string* answer) override {
    const SctpPacket question{peer_tag_, kData, kWholeMessage, std::string(kMessageAt, 0) + "?"};
    if (const int error = Exchange(question, kData, timeout_ms, answer)) return error;
    answer->erase(0, kMessageAt);
    return 0;
  }

  // Serves until the process ends.
  static int Serve(const Address& at, const std::string& name) {
    auto* end = new SctpEnd;
    if (const int error = end->Bind(at)) return error;
    std::thread([end, name, port = at.port()] {
      std::map<std::string, uint32_t> clients;  // tag of each, by address and port
      Address peer;
      SctpPacket packet;
      while (end->Receive(0, &peer, &packet) == 0) {
        const std::string key = peer.host() + " " + std::to_string(peer.port());
        if (packet.type == kInit) clients[key] = ReadBe(packet.body, 0, 4);
        if (packet.type == kAbort) clients.erase(key);
        const auto client = clients.find(key);
        const std::string answer = std::string(kMessageAt, 0) + IdentityJson(name, port, peer);
        if (packet.type == kAbort) continue;
        if (client == clients.end()) {
          end->Send(peer, {packet.tag, kAbort, kTagReflected, ""});
        } else if (packet.type == kInit) {
          end->Send(peer, {client->second, kInitAck, 0, InitBody(RandomTag()) + Cookie()});
        } else if (packet.type == kCookieEcho) {
          end->Send(peer, {client->second, kCookieAck, 0, ""});
        } else if (packet.type == kData) {
          end->Send(peer, {client->second, kData, kWholeMessage, answer});
        }
      }
    }).detach();
    return 0;
  }

  ~SctpRaw() override {
    if (peer_tag_ != 0) end_.Send(peer_, {peer_tag_, kAbort, 0, ""});
  }

 private:
  static constexpr uint8_t kTagReflected = 1;  // T bit of ABORT
  static constexpr uint8_t kWholeMessage = 3;  // B and E bits of DATA
  static constexpr size_t kCookieAt = 20;      // in an INIT-ACK: value of its only parameter
  static constexpr size_t kMessageAt = 12;     // in DATA, behind TSN, stream, sequence, protocol

  static uint32_t RandomTag() { return std::random_device{}() | 1U; }

  // | initiate tag 4 | receive window 4 | streams out 2 | streams in 2 | initial TSN 4 |
  static std::string InitBody(uint32_t tag) {
    return Be(tag, 4) + Be(65536, 4) + Be(1, 2) + Be(1, 2) + Be(1, 4);
  }

  static std::string Cookie() { return Be(7, 2) + Be(8, 2) + Be(RandomTag(), 4); }

  int Exchange(const SctpPacket& question, SctpChunk expected, int64_t timeout_ms,
               std::string* body) {
    if (const int error = end_.Send(peer_, question)) return error;
    Address from;
    SctpPacket packet;
    // At most a few stray packets: others of the same address have other ports.
    for (int packets = 0; packets < 16; packets++) {
      if (const int error = end_.Receive(timeout_ms, &from, &packet)) return error;
      if (from.host() != peer_.host() || from.port() != peer_.port()) continue;
      if (packet.type == kAbort) return ECONNREFUSED;
      if (packet.tag != own_tag_ || packet.type != expected) continue;
      *body = packet.body;
      return expected == kInitAck && body->size() <= kCookieAt ? EPROTO : 0;
    }
    return EAGAIN;
  }

  SctpEnd end_;
  Address peer_;
  uint32_t own_tag_ = 0;   // what the peer must put into its packets
  uint32_t peer_tag_ = 0;  // what we must put into ours; 0 before the INIT-ACK
};

}  // namespace lab
