#include "nft/batch_writer.h"

#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>
#include <sys/socket.h>

#include <array>

namespace fairlead::nft {

void PutFamilyHeader(wire::MessageWriter& out, std::uint8_t family, std::uint16_t resource) {
  const std::array<std::uint8_t, 4> header = {family, NFNETLINK_V0,
                                              static_cast<std::uint8_t>(resource >> 8),
                                              static_cast<std::uint8_t>(resource & 0xff)};
  out.PutFamilyHeader(header);
}

std::uint16_t MessageType(int nft_message) noexcept {
  return static_cast<std::uint16_t>(NFNL_SUBSYS_NFTABLES << 8 | nft_message);
}

BatchWriter::BatchWriter(std::uint32_t first_sequence, std::optional<std::uint32_t> generation)
    : first_sequence_(first_sequence) {
  BeginBatchMessage(NFNL_MSG_BATCH_BEGIN);
  if (generation) out_.PutU32Be(NFNL_BATCH_GENID, *generation);
  out_.EndMessage();
}

void BatchWriter::BeginBatchMessage(std::uint16_t type) {
  const std::size_t offset = out_.BeginMessage(type, NLM_F_REQUEST, NextSequence());
  PutFamilyHeader(out_, AF_UNSPEC, NFNL_SUBSYS_NFTABLES);
  origins_.push_back({.offset = offset});
}

wire::MessageWriter& BatchWriter::Begin(std::uint16_t type, std::uint16_t flags,
                                        std::uint8_t family, std::uint32_t first_entry) {
  const std::size_t offset = out_.BeginMessage(
      MessageType(type), static_cast<std::uint16_t>(flags | NLM_F_REQUEST), NextSequence());
  PutFamilyHeader(out_, family, 0);
  origins_.push_back({op_, first_entry, offset});
  return out_;
}

void BatchWriter::Finish() {
  if (origins_.size() > 1) out_.AddFlags(origins_.back().offset, NLM_F_ACK);
  BeginBatchMessage(NFNL_MSG_BATCH_END);
  out_.EndMessage();
}

}  // namespace fairlead::nft
