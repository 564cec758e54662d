#ifndef FAIRLEAD_NFT_NFT_FAMILY_H_
#define FAIRLEAD_NFT_NFT_FAMILY_H_

#include "nft/batch.h"
#include "nft/dump.h"
#include "protocol/netlink_family.h"

namespace fairlead::nft {

/** nf_tables. The ops of a buffer are one transaction. */
class NftFamily : public protocol::NetlinkFamily<Op, Request> {
 public:
  /** `receive_buffer_bytes`: 0 = room for the errors of a large transaction. */
  explicit NftFamily(int receive_buffer_bytes) noexcept;

 private:
  std::expected<ByteBuffer, SystemError> RunRequest(wire::Socket& socket,
                                                    std::span<const std::uint8_t> buffer) override;
  std::expected<ByteBuffer, SystemError> RunOps(wire::Socket& socket,
                                                std::span<const std::uint8_t> ops,
                                                std::uint32_t first_op) override;
};

}  // namespace fairlead::nft

#endif  // FAIRLEAD_NFT_NFT_FAMILY_H_
