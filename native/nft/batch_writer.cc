#include "nft/batch_writer.h"

namespace fairlead::nft {

BatchWriter::BatchWriter(std::uint32_t first_sequence) : first_sequence_(first_sequence) {
  BeginBatchMessage(NFNL_MSG_BATCH_BEGIN);
  out_.EndMessage();
}

void BatchWriter::BeginBatchMessage(std::uint16_t type) {
  const std::size_t offset =
      wire::BeginNfnetlink(out_, type, 0, NFPROTO_UNSPEC, NextSequence(), NFNL_SUBSYS_NFTABLES);
  origins_.push_back({.offset = offset});
}

wire::MessageWriter& BatchWriter::Begin(std::uint16_t type, std::uint16_t flags,
                                        std::uint8_t family, std::uint32_t first_entry) {
  const std::size_t offset =
      wire::BeginNfnetlink(out_, MessageType(type), flags, family, NextSequence());
  origins_.push_back({op_, first_entry, offset});
  return out_;
}

void BatchWriter::Finish() {
  if (origins_.size() > 1) out_.AddFlags(origins_.back().offset, NLM_F_ACK);
  BeginBatchMessage(NFNL_MSG_BATCH_END);
  out_.EndMessage();
}

}  // namespace fairlead::nft
