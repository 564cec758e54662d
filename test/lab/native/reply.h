// The end of one question to a server, and outcomes of outcome.ts, as JSON.
#pragma once

#include <cstdio>
#include <functional>
#include <string>
#include <utility>

#include "address.h"

namespace lab {

inline std::string Quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char escape[8];
      std::snprintf(escape, sizeof(escape), "\\u%04x", c);
      out += escape;
    } else {
      out += c;
    }
  }
  return out + "\"";
}

// The end of one question, from sockets and packets.
struct Reply {
  enum Kind { kAnswered, kFailed, kUnreachable, kClosed, kTimeout } kind = kTimeout;
  std::string text = {};  // what the server says, or the meaning of the ICMP error
  std::string from = {};  // own address, or that of the ICMP error's sender
  int error = 0;          // errno, where the question failed
};

using Deliver = std::function<void(const Reply&)>;

inline Reply Failed(int error) { return {Reply::kFailed, {}, {}, error}; }

// An answer that does not come from an agent is an error, which fails the test that asked.
inline std::string AnswerOutcome(const Reply& reply) {
  const size_t end = reply.text.find(",\"sourcePort\":");
  if (reply.text.empty() || reply.text.front() != '{' || end == std::string::npos) {
    return "{\"kind\":\"error\",\"detail\":" + Quoted("answer " + reply.text) + "}";
  }
  return "{\"kind\":\"answered\"," + reply.text.substr(1, end - 1) + ",\"own\":\"" + reply.from +
         "\"}";
}

inline std::string OutcomeOf(const Reply& reply) {
  switch (reply.kind) {
    case Reply::kAnswered:
      return AnswerOutcome(reply);
    case Reply::kUnreachable:
      return "{\"kind\":\"unreachable\",\"icmp\":\"" + reply.text + "\",\"from\":\"" + reply.from +
             "\"}";
    case Reply::kClosed:
      return "{\"kind\":\"closed\"}";
    case Reply::kTimeout:
      return "{\"kind\":\"timeout\"}";
    case Reply::kFailed:
      break;
  }
  switch (reply.error) {
    // The peer refused, and not our own namespace.
    case ECONNREFUSED:
    case ECONNRESET:
    case EPIPE:
    case ECONNABORTED:
      return "{\"kind\":\"reset\"}";
    // A filter of our own namespace dropped the packet. For the client that is silence.
    case EPERM:
    case ETIMEDOUT:
      return "{\"kind\":\"timeout\"}";
    default:
      return std::string("{\"kind\":\"error\",\"detail\":\"") + strerrorname_np(reply.error) +
             "\"}";
  }
}

// Gives the events of a socket to the last question. An event that comes while no question waits is
// kept only if it is final: a late answer belongs to a question that was given up.
class Mailbox {
 public:
  // False if the end is known already, which is then delivered.
  bool Await(Deliver deliver) {
    if (is_final_) {
      deliver(Reply(final_));
      return false;
    }
    deliver_ = std::move(deliver);
    return true;
  }

  // By value: what is delivered to may delete this.
  void Answer(Reply reply) {
    if (deliver_ == nullptr) return;
    const Deliver deliver = std::move(deliver_);
    deliver_ = nullptr;
    deliver(reply);
  }

  void End(const Reply& reply) {
    if (!is_final_) final_ = reply;
    is_final_ = true;
    Answer(final_);
  }

  void GiveUp() { deliver_ = nullptr; }

 private:
  Deliver deliver_ = nullptr;
  bool is_final_ = false;
  Reply final_;
};

}  // namespace lab
