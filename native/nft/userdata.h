// Comments, stored in the opaque user data that the kernel keeps for nft(8).
#ifndef FAIRLEAD_NFT_USERDATA_H_
#define FAIRLEAD_NFT_USERDATA_H_

#include <cstdint>
#include <expected>
#include <span>
#include <string_view>

#include "protocol/record_reader.h"
#include "wire/message_writer.h"

namespace fairlead::nft {

/**
 * User data is a row of { type u8, length u8, value }. nft prints the value of this type as
 * `comment "..."`: a string with its NUL. Numbers as in libnftnl's udata.h.
 */
inline constexpr std::uint8_t kCommentOfTableChainOrRule = 0;
inline constexpr std::uint8_t kCommentOfElement = 0;
inline constexpr std::uint8_t kCommentOfSet = 7;

/** Puts nothing for an empty comment. Fails when the comment does not fit its length byte. */
protocol::Checked PutComment(wire::MessageWriter& out, std::uint16_t attribute, std::uint8_t type,
                             std::string_view comment);

/** Whether the user data is a comment and nothing else. */
bool IsComment(std::span<const std::uint8_t> userdata, std::uint8_t type) noexcept;

/** The comment, or an empty string. */
std::string_view ReadComment(std::span<const std::uint8_t> userdata, std::uint8_t type) noexcept;

}  // namespace fairlead::nft

#endif  // FAIRLEAD_NFT_USERDATA_H_
