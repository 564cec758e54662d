#include "wire/trace.h"

#include <linux/netlink.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "wire/ack_collector.h"
#include "wire/attr_reader.h"

namespace fairlead::wire {

namespace {

constexpr std::size_t kLineBytesMax = 2000;
constexpr int kDepthMax = 8;

void Append(std::string& out, const char* format, unsigned value) {
  char text[32];
  std::snprintf(text, sizeof(text), format, value);
  out += text;
}

/**
 * Guesses whether the payload is nested, since nf_tables does not set NLA_F_NESTED in what it
 * sends. Nested attributes fill the payload exactly and have small types. Payloads of less than 8
 * bytes count as numbers.
 */
bool LooksNested(std::span<const std::uint8_t> payload) noexcept {
  if (payload.size() < 8) return false;
  AttrReader reader(payload);
  while (const auto attribute = reader.Next()) {
    if (attribute->type == 0 || attribute->type > 32) return false;
  }
  return !reader.malformed();
}

bool LooksLikeText(std::span<const std::uint8_t> payload) noexcept {
  return payload.size() >= 2 && payload.back() == 0 &&
         std::all_of(payload.begin(), payload.end() - 1,
                     [](std::uint8_t byte) { return byte >= 0x20 && byte < 0x7f; });
}

void PrintHex(std::string& out, std::span<const std::uint8_t> bytes) {
  for (const std::uint8_t byte : bytes) {
    if (out.size() > kLineBytesMax) return;
    Append(out, "%02x", byte);
  }
}

void PrintAttributes(std::string& out, std::span<const std::uint8_t> attributes, int depth) {
  AttrReader reader(attributes);
  const char* separator = "";
  while (const auto attribute = reader.Next()) {
    if (out.size() > kLineBytesMax) return;
    out += separator;
    separator = " ";
    Append(out, "%u:", attribute->type);
    if (depth < kDepthMax && (attribute->nested || LooksNested(attribute->payload))) {
      out += '{';
      PrintAttributes(out, attribute->payload, depth + 1);
      out += '}';
    } else if (LooksLikeText(attribute->payload)) {
      out += '"';
      out += ReadString(attribute->payload);
      out += '"';
    } else {
      PrintHex(out, attribute->payload);
    }
  }
  if (reader.malformed()) out += " (malformed)";
}

void PrintAnswer(std::string& out, const Message& message) {
  const Answer answer = ReadAnswer(message);
  out += answer.error == 0 ? " ok" : " error ";
  out += answer.words;
  if (answer.offset) Append(out, " at offset %u", *answer.offset);
}

void PrintMessage(std::string& out, const Message& message, std::size_t family_header_bytes) {
  std::string line;
  Append(line, " type 0x%x", message.type);
  Append(line, " flags 0x%x", message.flags);
  Append(line, " seq %u", message.sequence);
  Append(line, " len %u", static_cast<unsigned>(message.payload.size() + NLMSG_HDRLEN));
  if (message.type == NLMSG_ERROR || message.type == NLMSG_DONE) {
    PrintAnswer(line, message);
  } else if (message.type >= NLMSG_MIN_TYPE && message.payload.size() > family_header_bytes) {
    line += ' ';
    PrintAttributes(line, message.payload.subspan(family_header_bytes), 0);
  }
  if (line.size() > kLineBytesMax) {
    line.resize(kLineBytesMax);
    line += " ...";
  }
  out += line;
}

}  // namespace

bool TraceWanted() noexcept {
  // Nothing in this process changes its environment.
  // NOLINTNEXTLINE(concurrency-mt-unsafe)
  const char* value = std::getenv("KERNEL_TRACE");
  return value != nullptr && std::strcmp(value, "1") == 0;
}

std::string TraceLines(const char* direction, std::span<const std::uint8_t> datagram,
                       std::size_t family_header_bytes) {
  std::string out;
  MessageReader reader(datagram);
  while (const auto message = reader.Next()) {
    out += direction;
    PrintMessage(out, *message, family_header_bytes);
    out += '\n';
  }
  if (reader.malformed()) (out += direction) += " malformed message\n";
  return out;
}

void Trace(const char* direction, std::span<const std::uint8_t> datagram,
           std::size_t family_header_bytes) noexcept {
  const std::string lines = TraceLines(direction, datagram, family_header_bytes);
  std::fwrite(lines.data(), 1, lines.size(), stderr);
}

}  // namespace fairlead::wire
