#include "nft/nft_family.h"

#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>

#include "nft/batch.h"
#include "nft/dump.h"

namespace fairlead::nft {

namespace {

// The kernel answers each failing message of a batch; with its overhead an answer takes about 1
// KiB.
constexpr int kReceiveBufferBytes = 4 * 1024 * 1024;

}  // namespace

NftFamily::NftFamily(int receive_buffer_bytes) noexcept
    : receive_buffer_bytes_(receive_buffer_bytes > 0 ? receive_buffer_bytes : kReceiveBufferBytes) {
}

bool NftFamily::Handles(std::uint32_t code) const noexcept { return IsOp(code) || IsRequest(code); }

std::expected<wire::Socket*, SystemError> NftFamily::OpenSocket() {
  if (!socket_) {
    auto opened = wire::Socket::Open({.protocol = NETLINK_NETFILTER,
                                      .receive_buffer_bytes = receive_buffer_bytes_,
                                      .family_header_bytes = sizeof(nfgenmsg)});
    if (!opened) return std::unexpected(opened.error());
    socket_.emplace(std::move(*opened));
  }
  return &*socket_;
}

std::expected<ByteBuffer, SystemError> NftFamily::Run(std::span<const std::uint8_t> buffer) {
  const auto socket = OpenSocket();
  if (!socket) return std::unexpected(socket.error());
  protocol::RecordReader reader(buffer);
  const auto first = reader.Next();
  if (first && IsRequest(first->code)) {
    auto outcome = RunRequest(**socket, buffer);
    // Late answers would be taken for those of the next request: start afresh.
    if (!outcome || !outcome->complete) socket_.reset();
    if (!outcome) return std::unexpected(outcome.error());
    return std::move(outcome->reply);
  }
  auto reply = RunBatch(**socket, buffer);
  if (!reply) socket_.reset();
  return reply;
}

}  // namespace fairlead::nft
