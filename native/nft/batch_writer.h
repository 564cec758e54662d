// Writes the messages of one nf_tables transaction, and keeps which op each comes from.
#ifndef FAIRLEAD_NFT_BATCH_WRITER_H_
#define FAIRLEAD_NFT_BATCH_WRITER_H_

#include <cstdint>
#include <expected>
#include <optional>
#include <span>
#include <vector>

#include "protocol/ops.gen.h"
#include "wire/message_writer.h"
#include "wire/nfnetlink.h"

namespace fairlead::nft {

/** Why an op is refused. */
struct BadOp {
  protocol::BadRecord reason;
  /** Index of the entry, for an op with several, else kUnknownIndex. */
  std::uint32_t entry = protocol::kUnknownIndex;
  /** Index of the op in the buffer. */
  std::uint32_t op = 0;

  BadOp(protocol::BadRecord why, std::uint32_t at = protocol::kUnknownIndex) noexcept
      : reason(why), entry(at) {}
};
using EncodeResult = std::expected<void, BadOp>;

/** Where a message comes from. */
struct Origin {
  /** Index of the op; kUnknownIndex for the messages that begin and end the batch. */
  std::uint32_t op = protocol::kUnknownIndex;
  /** Index of the first entry in a message of elements, else kUnknownIndex. */
  std::uint32_t first_entry = protocol::kUnknownIndex;
  /** Offset of the message in the batch. */
  std::size_t offset = 0;
};

/**
 *   NFNL_MSG_BATCH_BEGIN
 *   NFT_MSG_*             one or more for each op
 *   NFNL_MSG_BATCH_END
 *
 * Message i has the sequence number `first_sequence + i`.
 */
class BatchWriter {
 public:
  explicit BatchWriter(std::uint32_t first_sequence);

  /** Messages from now on belong to op `index`. */
  void BeginOp(std::uint32_t index) noexcept { op_ = index; }

  /** Starts a message NFT_MSG_*; NLM_F_REQUEST is added to `flags`. */
  wire::MessageWriter& Begin(std::uint16_t type, std::uint16_t flags, std::uint8_t family,
                             std::uint32_t first_entry = protocol::kUnknownIndex);
  void End() noexcept { out_.EndMessage(); }
  /** Counts the current message as one with NLM_F_ECHO whose answer is needed. */
  void ExpectEcho() noexcept {
    ++echoes_;
    ++needed_echoes_;
  }
  /** Counts the current message as one with NLM_F_ECHO whose answer may be missing. */
  void WelcomeEcho() noexcept { ++echoes_; }

  /** Ends the batch. The last message before BATCH_END asks for an acknowledgement. */
  void Finish();

  /** Index of the current op, for ids that must be unique in a transaction. */
  std::uint32_t op() const noexcept { return op_; }
  wire::MessageWriter& out() noexcept { return out_; }
  /** The origin of each message in order, BATCH_BEGIN first. */
  const std::vector<Origin>& origins() const noexcept { return origins_; }
  std::span<const std::uint8_t> bytes() const noexcept { return out_.bytes(); }
  /** Number of messages with NLM_F_ECHO. */
  std::uint32_t echoes() const noexcept { return echoes_; }
  std::uint32_t needed_echoes() const noexcept { return needed_echoes_; }
  /** The bytes of the batch from the message at `index` on. */
  std::span<const std::uint8_t> Message(std::uint32_t index) const noexcept {
    return bytes().subspan(origins_[index].offset);
  }

 private:
  void BeginBatchMessage(std::uint16_t type);
  std::uint32_t NextSequence() const noexcept {
    return first_sequence_ + static_cast<std::uint32_t>(origins_.size());
  }

  wire::MessageWriter out_;
  std::vector<Origin> origins_;
  std::uint32_t first_sequence_;
  std::uint32_t op_ = protocol::kUnknownIndex;
  std::uint32_t echoes_ = 0;
  std::uint32_t needed_echoes_ = 0;
};

/** NFT_MSG_* as nlmsg_type. */
constexpr std::uint16_t MessageType(int nft_message) noexcept {
  return wire::NfnetlinkType(NFNL_SUBSYS_NFTABLES, nft_message);
}

}  // namespace fairlead::nft

#endif  // FAIRLEAD_NFT_BATCH_WRITER_H_
