// Reads the rules of a batch as the kernel sends them back, with their handles (NLM_F_ECHO).
#ifndef FAIRLEAD_NFT_ECHO_H_
#define FAIRLEAD_NFT_ECHO_H_

#include <cstdint>
#include <span>
#include <vector>

#include "nft/batch_writer.h"

namespace fairlead::nft {

/** Bytes that so many echoes take in the receive buffer. */
std::size_t EchoBytes(std::uint32_t echoes) noexcept;

/** Reads NFT_MSG_NEWRULE messages. Each has the sequence number of the message that it echoes. */
class EchoCollector {
 public:
  EchoCollector(std::uint32_t first_sequence, const BatchWriter& batch) noexcept
      : first_(first_sequence), batch_(batch) {}

  void Take(std::span<const std::uint8_t> datagram);
  /** Whether every message that asked for an echo has got it. */
  bool complete() const noexcept { return handles_.size() == batch_.echoes(); }
  /** Appends a record `ruleHandle` for each rule. */
  void Write(protocol::RecordWriter& out) const;

 private:
  std::uint32_t first_;
  const BatchWriter& batch_;
  std::vector<protocol::reply::RuleHandle> handles_;
};

}  // namespace fairlead::nft

#endif  // FAIRLEAD_NFT_ECHO_H_
