#include "nft/userdata.h"

#include <algorithm>
#include <array>

#include "wire/attr_reader.h"

namespace fairlead::nft {

protocol::Checked PutComment(wire::MessageWriter& out, std::uint16_t attribute, std::uint8_t type,
                             std::string_view comment, std::span<const std::uint8_t> before) {
  if (comment.empty()) {
    if (!before.empty()) out.PutBytes(attribute, before);
    return {};
  }
  // NFT_USERDATA_MAXLEN is 256, for type, length, value and NUL.
  std::array<std::uint8_t, 256> userdata{};
  if (before.size() + comment.size() > userdata.size() - 3) {
    return std::unexpected(protocol::BadRecord{"comment", "text", "is longer than 253 bytes"});
  }
  const auto header = std::copy(before.begin(), before.end(), userdata.begin());
  header[0] = type;
  header[1] = static_cast<std::uint8_t>(comment.size() + 1);
  std::copy(comment.begin(), comment.end(), header + 2);
  out.PutBytes(attribute, std::span(userdata).first(before.size() + comment.size() + 3));
  return {};
}

bool IsComment(std::span<const std::uint8_t> userdata, std::uint8_t type) noexcept {
  return userdata.size() >= 2 && userdata[0] == type && userdata[1] == userdata.size() - 2;
}

std::string_view ReadComment(std::span<const std::uint8_t> userdata, std::uint8_t type) noexcept {
  while (userdata.size() >= 2) {
    const std::size_t length = userdata[1];
    if (length > userdata.size() - 2) return {};
    if (userdata[0] == type) return wire::ReadString(userdata.subspan(2, length));
    userdata = userdata.subspan(2 + length);
  }
  return {};
}

}  // namespace fairlead::nft
