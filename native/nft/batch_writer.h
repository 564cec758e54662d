// Messages of one nf_tables transaction, and which op each of them came from.
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

/** What is wrong with an op. */
struct BadOp {
  protocol::BadRecord reason;
  /** Index of the entry, of an op that has several, else kUnknownIndex. */
  std::uint32_t entry = protocol::kUnknownIndex;
  /** Index of the op in the buffer. */
  std::uint32_t op = 0;

  BadOp(protocol::BadRecord why, std::uint32_t at = protocol::kUnknownIndex) noexcept
      : reason(why), entry(at) {}
};
using EncodeResult = std::expected<void, BadOp>;

/** Where a message came from. */
struct Origin {
  /** Index of the op; kUnknownIndex for the messages that begin and end the batch. */
  std::uint32_t op = protocol::kUnknownIndex;
  /** Index of the first entry in a message of elements, else kUnknownIndex. */
  std::uint32_t first_entry = protocol::kUnknownIndex;
  /** Where the message starts in the batch. */
  std::size_t offset = 0;
};

/**
 *   NFNL_MSG_BATCH_BEGIN
 *   NFT_MSG_*  one or more for each op
 *   NFNL_MSG_BATCH_END
 *
 * Message i has sequence number `first_sequence + i`.
 */
class BatchWriter {
 public:
  explicit BatchWriter(std::uint32_t first_sequence);

  /** Ops are numbered by the caller; messages begun from now on belong to op `index`. */
  void BeginOp(std::uint32_t index) noexcept { op_ = index; }

  /** Starts a message NFT_MSG_*; NLM_F_REQUEST is added to `flags`. */
  wire::MessageWriter& Begin(std::uint16_t type, std::uint16_t flags, std::uint8_t family,
                             std::uint32_t first_entry = protocol::kUnknownIndex);
  void End() noexcept { out_.EndMessage(); }
  /** The message being written asks the kernel to send back what it makes of it. */
  void ExpectEcho() noexcept { ++echoes_; }

  /** Closes the batch; the last message of an op asks for an acknowledgement. */
  void Finish();

  /** Number of the op being written, for ids that must be unique within a transaction. */
  std::uint32_t op() const noexcept { return op_; }
  wire::MessageWriter& out() noexcept { return out_; }
  /** One for each message, in order, that of BATCH_BEGIN first. */
  const std::vector<Origin>& origins() const noexcept { return origins_; }
  std::span<const std::uint8_t> bytes() const noexcept { return out_.bytes(); }
  /** How many messages ask for an echo. */
  std::uint32_t echoes() const noexcept { return echoes_; }
  /** The message at `index` and everything after it. */
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
};

/** NFT_MSG_* as nlmsg_type. */
constexpr std::uint16_t MessageType(int nft_message) noexcept {
  return wire::NfnetlinkType(NFNL_SUBSYS_NFTABLES, nft_message);
}

}  // namespace fairlead::nft

#endif  // FAIRLEAD_NFT_BATCH_WRITER_H_
