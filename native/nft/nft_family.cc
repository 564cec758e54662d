#include "nft/nft_family.h"

#include "protocol/dump_answer.h"
#include "wire/nfnetlink.h"

namespace fairlead::nft {

namespace {

// The kernel answers each message that fails. An answer takes about 1 KiB with its overhead.
constexpr int kReceiveBufferBytes = 4 * 1024 * 1024;

}  // namespace

NftFamily::NftFamily(int receive_buffer_bytes) noexcept
    : NetlinkFamily(wire::NfnetlinkOptions(receive_buffer_bytes > 0 ? receive_buffer_bytes
                                                                    : kReceiveBufferBytes)) {}

std::expected<ByteBuffer, SystemError> NftFamily::RunOps(wire::Socket& socket,
                                                         std::span<const std::uint8_t> ops,
                                                         std::uint32_t first_op) {
  return RunBatch(socket, ops, first_op);
}

std::expected<ByteBuffer, SystemError> NftFamily::RunRequest(wire::Socket& socket,
                                                             std::span<const std::uint8_t> buffer) {
  const auto request = ReadRequest(buffer);
  return request ? nft::RunRequest(socket, *request) : protocol::RefuseDump(request.error());
}

}  // namespace fairlead::nft
