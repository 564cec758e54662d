// Reads the rules of a batch as the kernel sends them back (NLM_F_ECHO): those that come with their
// handles, those of deleted rules with their counters.
#ifndef FAIRLEAD_NFT_ECHO_H_
#define FAIRLEAD_NFT_ECHO_H_

#include <cstdint>
#include <span>
#include <vector>

#include "nft/batch_writer.h"

namespace fairlead::nft {

/** Bytes that this number of echoes takes in the receive buffer. */
std::size_t EchoBytes(std::uint32_t echoes) noexcept;

/**
 * Reads NFT_MSG_NEWRULE and NFT_MSG_DELRULE messages. Each has the sequence number of the message
 * that it echoes.
 */
class EchoCollector {
 public:
  EchoCollector(std::uint32_t first_sequence, const BatchWriter& batch) noexcept
      : first_(first_sequence), batch_(batch) {}

  void Take(std::span<const std::uint8_t> datagram);
  /** Whether every echo that is needed has come: those of rules that come. */
  bool complete() const noexcept { return handles_.size() == batch_.needed_echoes(); }
  /** Appends a record `ruleHandle` or `ruleGone` for each rule. */
  void Write(protocol::RecordWriter& out) const;

 private:
  struct Gone {
    std::uint32_t op;
    std::uint64_t packets;
    protocol::RecordWriter expressions;
  };

  void TakeRule(int type, std::uint32_t op, std::span<const std::uint8_t> attributes);

  std::uint32_t first_;
  const BatchWriter& batch_;
  std::vector<protocol::reply::RuleHandle> handles_;
  std::vector<Gone> gone_;
};

}  // namespace fairlead::nft

#endif  // FAIRLEAD_NFT_ECHO_H_
