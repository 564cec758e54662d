// Records that may be of several types: the alternatives of a std::variant.
#ifndef FAIRLEAD_PROTOCOL_ONE_OF_H_
#define FAIRLEAD_PROTOCOL_ONE_OF_H_

#include <cstdint>
#include <expected>
#include <span>
#include <type_traits>
#include <variant>

#include "protocol/record_reader.h"

namespace fairlead::protocol {

/** Whether the code is that of an alternative. */
template <typename Variant, std::size_t kIndex = 0>
constexpr bool IsOneOf(std::uint32_t code) noexcept {
  if constexpr (kIndex == std::variant_size_v<Variant>) {
    return false;
  } else {
    return code == std::variant_alternative_t<kIndex, Variant>::kCode ||
           IsOneOf<Variant, kIndex + 1>(code);
  }
}

/** The record as the alternative that has its code. `sort` names records that are of none. */
template <typename Variant, std::size_t kIndex = 0>
std::expected<Variant, BadRecord> ReadOneOf(const Record& record, const char* sort) {
  if constexpr (kIndex == std::variant_size_v<Variant>) {
    return std::unexpected(BadRecord{sort, "code", "is not one of the schema"});
  } else {
    using R = std::variant_alternative_t<kIndex, Variant>;
    if (record.code != R::kCode) return ReadOneOf<Variant, kIndex + 1>(record, sort);
    const auto read = Read<R>(record.payload);
    if (!read) return std::unexpected(read.error());
    return Variant(*read);
  }
}

/** Takes whatever can be read. */
struct NoCheck {
  Checked operator()(const auto&) const noexcept { return {}; }
};

/** The one request that a buffer holds, if `check`, which takes any alternative, finds it good. */
template <typename Variant, typename Check = NoCheck>
std::expected<Variant, BadRecord> ReadRequest(std::span<const std::uint8_t> buffer,
                                              Check check = {}) {
  RecordReader reader(buffer);
  const auto record = reader.Next();
  if (!record) return std::unexpected(record.error());
  if (!reader.AtEnd()) {
    return std::unexpected(BadRecord{"request", "buffer", "holds more than one"});
  }
  const auto request = ReadOneOf<Variant>(*record, "request");
  if (!request) return request;
  const Checked checked = std::visit(check, *request);
  if (!checked) return std::unexpected(checked.error());
  return request;
}

}  // namespace fairlead::protocol

#endif  // FAIRLEAD_PROTOCOL_ONE_OF_H_
