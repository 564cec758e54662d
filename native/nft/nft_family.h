#ifndef FAIRLEAD_NFT_NFT_FAMILY_H_
#define FAIRLEAD_NFT_NFT_FAMILY_H_

#include "protocol/family.h"
#include "wire/lazy_socket.h"

namespace fairlead::nft {

/** nf_tables: a buffer of ops is one transaction, a buffer with one request is one read. */
class NftFamily : public protocol::Family {
 public:
  /** `receive_buffer_bytes`: 0 = enough for some thousand errors. */
  explicit NftFamily(int receive_buffer_bytes) noexcept;

  bool Handles(std::uint32_t code) const noexcept override;
  std::expected<ByteBuffer, SystemError> Run(std::span<const std::uint8_t> buffer) override;

 private:
  wire::LazySocket socket_;
};

}  // namespace fairlead::nft

#endif  // FAIRLEAD_NFT_NFT_FAMILY_H_
