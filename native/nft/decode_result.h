#ifndef FAIRLEAD_NFT_DECODE_RESULT_H_
#define FAIRLEAD_NFT_DECODE_RESULT_H_

#include <expected>

namespace fairlead::nft {

/** Why a message of the kernel could not be decoded. Both strings are literals. */
struct MalformedReply {
  const char* subject = "";
  const char* problem = "";
};

using DecodeResult = std::expected<void, MalformedReply>;

inline DecodeResult Malformed(const char* subject, const char* problem) {
  return std::unexpected(MalformedReply{subject, problem});
}

}  // namespace fairlead::nft

#endif  // FAIRLEAD_NFT_DECODE_RESULT_H_
