// Reads records that have one of several types, the alternatives of a std::variant.
#ifndef FAIRLEAD_PROTOCOL_ONE_OF_H_
#define FAIRLEAD_PROTOCOL_ONE_OF_H_

#include <cstdint>
#include <expected>
#include <span>
#include <type_traits>
#include <variant>

#include "protocol/record_reader.h"

namespace fairlead::protocol {

/** Whether an alternative has the code. */
template <typename Variant, std::size_t kIndex = 0>
constexpr bool IsOneOf(std::uint32_t code) noexcept {
  if constexpr (kIndex == std::variant_size_v<Variant>) {
    return false;
  } else {
    return code == std::variant_alternative_t<kIndex, Variant>::kCode ||
           IsOneOf<Variant, kIndex + 1>(code);
  }
}

/** The record as the alternative with its code. `sort` names the record in errors. */
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

/** Accepts every request. */
struct NoCheck {
  Checked operator()(const auto&) const noexcept { return {}; }
};

/** Reads the only request of a buffer. `check` takes any alternative and may refuse it. */
template <typename Variant, typename Check = NoCheck>
std::expected<Variant, BadRecord> ReadRequest(std::span<const std::uint8_t> buffer,
                                              Check check = {}) {
  RecordReader reader(buffer);
  const auto record = reader.Next();
  if (!record) return std::unexpected(record.error());
  if (!reader.AtEnd()) {
    return std::unexpected(BadRecord{"request", "buffer", "contains more than one request"});
  }
  const auto request = ReadOneOf<Variant>(*record, "request");
  if (!request) return request;
  const Checked checked = std::visit(check, *request);
  if (!checked) return std::unexpected(checked.error());
  return request;
}

}  // namespace fairlead::protocol

#endif  // FAIRLEAD_PROTOCOL_ONE_OF_H_
