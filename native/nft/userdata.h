// Comments in the user data of objects, which the kernel stores without reading it.
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
 * User data is a sequence of { type u8, length u8, value }. nft prints the value of these types,
 * which is a string with its NUL, as `comment "..."`. The numbers are those of libnftnl's udata.h.
 */
inline constexpr std::uint8_t kCommentOfTableChainOrRule = 0;
inline constexpr std::uint8_t kCommentOfElement = 0;
inline constexpr std::uint8_t kCommentOfSet = 7;

/**
 * Puts the comment, or nothing when it is empty. `before`: user data of other types, which comes
 * first. Fails when there are more than 256 bytes with the headers.
 */
protocol::Checked PutComment(wire::MessageWriter& out, std::uint16_t attribute, std::uint8_t type,
                             std::string_view comment, std::span<const std::uint8_t> before = {});

/** Whether the user data is one comment only. */
bool IsComment(std::span<const std::uint8_t> userdata, std::uint8_t type) noexcept;

/** The comment, or an empty string. */
std::string_view ReadComment(std::span<const std::uint8_t> userdata, std::uint8_t type) noexcept;

}  // namespace fairlead::nft

#endif  // FAIRLEAD_NFT_USERDATA_H_
