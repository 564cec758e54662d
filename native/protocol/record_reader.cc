#include "protocol/record_reader.h"

#include <cstring>

namespace fairlead::protocol {

namespace {

std::uint32_t LoadWord(std::span<const std::uint8_t> bytes) noexcept {
  std::uint32_t word;
  std::memcpy(&word, bytes.data(), sizeof(word));
  return word;
}

}  // namespace

std::string Words(const BadRecord& error) {
  return std::string(error.record) + "." + error.field + " " + error.problem;
}

std::expected<Record, BadRecord> RecordReader::Next() noexcept {
  const auto rest = rest_;
  rest_ = {};
  if (rest.size() < 8) return std::unexpected(BadRecord{"record", "header", "is truncated"});
  const std::uint32_t length = LoadWord(rest.subspan(4));
  if (length > rest.size() - 8) {
    return std::unexpected(BadRecord{"record", "payload", "is longer than the buffer"});
  }
  rest_ = rest.subspan(8 + std::size_t{length});
  return Record{LoadWord(rest), rest.subspan(8, length)};
}

void FieldReader::Fail(const char* field, const char* problem) noexcept {
  if (!failed()) error_ = BadRecord{record_, field, problem};
  rest_ = {};
}

std::uint32_t FieldReader::Word(const char* field) noexcept {
  if (rest_.size() < 4) {
    Fail(field, "is truncated");
    return 0;
  }
  const std::uint32_t word = LoadWord(rest_);
  rest_ = rest_.subspan(4);
  return word;
}

void FieldReader::Take(const char* field, std::uint8_t& value) noexcept {
  const std::uint32_t word = Word(field);
  if (word > 0xff) Fail(field, "is not a u8");
  value = static_cast<std::uint8_t>(word);
}

void FieldReader::Take(const char* field, std::uint16_t& value) noexcept {
  const std::uint32_t word = Word(field);
  if (word > 0xffff) Fail(field, "is not a u16");
  value = static_cast<std::uint16_t>(word);
}

void FieldReader::Take(const char* field, std::int32_t& value) noexcept {
  value = static_cast<std::int32_t>(Word(field));
}

void FieldReader::Take(const char* field, std::uint64_t& value) noexcept {
  const std::uint64_t low = Word(field);
  const std::uint64_t high = Word(field);
  value = high << 32 | low;
}

void FieldReader::Take(const char* field, std::span<const std::uint8_t>& value) noexcept {
  value = Bytes(field);
}

void FieldReader::Take(const char* field, std::string_view& value) noexcept {
  const auto bytes = Bytes(field);
  value = {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  if (value.find('\0') == std::string_view::npos) return;
  Fail(field, "contains a NUL");
  value = {};
}

std::span<const std::uint8_t> FieldReader::Bytes(const char* field) noexcept {
  const std::size_t length = Word(field);
  const std::size_t padded = (length + 3) & ~std::size_t{3};
  if (padded > rest_.size()) {
    Fail(field, "is truncated");
    return {};
  }
  const auto bytes = rest_.first(length);
  rest_ = rest_.subspan(padded);
  return bytes;
}

bool FieldReader::Finish() noexcept {
  if (!rest_.empty()) Fail("payload", "continues after the last field");
  return !failed();
}

}  // namespace fairlead::protocol
