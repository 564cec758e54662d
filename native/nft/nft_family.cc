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
    : socket_({.protocol = NETLINK_NETFILTER,
               .receive_buffer_bytes =
                   receive_buffer_bytes > 0 ? receive_buffer_bytes : kReceiveBufferBytes,
               .family_header_bytes = sizeof(nfgenmsg)}) {}

bool NftFamily::Handles(std::uint32_t code) const noexcept { return IsOp(code) || IsRequest(code); }

std::expected<ByteBuffer, SystemError> NftFamily::Run(std::span<const std::uint8_t> buffer) {
  const auto socket = socket_.Open();
  if (!socket) return std::unexpected(socket.error());
  protocol::RecordReader reader(buffer);
  const auto first = reader.Next();
  if (first && IsRequest(first->code)) {
    auto outcome = RunRequest(**socket, buffer);
    if (!outcome || !outcome->complete) socket_.Close();
    if (!outcome) return std::unexpected(outcome.error());
    return std::move(outcome->reply);
  }
  auto reply = RunBatch(**socket, buffer);
  if (!reply) socket_.Close();
  return reply;
}

}  // namespace fairlead::nft
