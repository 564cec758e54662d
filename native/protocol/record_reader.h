// Reads records (see src/kernel/records.ts) out of a buffer that came from outside: every read is
// checked against the buffer's end, and nothing is copied.
#ifndef FAIRLEAD_PROTOCOL_RECORD_READER_H_
#define FAIRLEAD_PROTOCOL_RECORD_READER_H_

#include <cstdint>
#include <expected>
#include <span>
#include <string>
#include <string_view>
#include <tuple>

namespace fairlead::protocol {

/**
 * What is wrong with a record: how it is written, or what it asks for. All strings are literals, so
 * the value is free to copy.
 */
struct BadRecord {
  const char* record = "";
  const char* field = "";
  const char* problem = "";
};

/** `tableAdd.table is truncated` */
std::string Words(const BadRecord& error);

/** Nothing, or what is wrong with a record. */
using Checked = std::expected<void, BadRecord>;

struct Record {
  std::uint32_t code = 0;
  std::span<const std::uint8_t> payload;
};

/** Walks the records of a buffer. */
class RecordReader {
 public:
  explicit RecordReader(std::span<const std::uint8_t> buffer) noexcept : rest_(buffer) {}

  bool AtEnd() const noexcept { return rest_.empty(); }
  /** The next record. Must not be called at the end; after an error the reader is at its end. */
  std::expected<Record, BadRecord> Next() noexcept;

 private:
  std::span<const std::uint8_t> rest_;
};

/**
 * Takes the fields of one record in schema order. The first error sticks, and every read after it
 * gives zero or an empty view, so that callers check once at the end.
 */
class FieldReader {
 public:
  FieldReader(const char* record, std::span<const std::uint8_t> payload) noexcept
      : record_(record), rest_(payload) {}

  void Take(const char* field, std::uint8_t& value) noexcept;
  void Take(const char* field, std::uint16_t& value) noexcept;
  void Take(const char* field, std::uint32_t& value) noexcept { value = Word(field); }
  void Take(const char* field, std::int32_t& value) noexcept;
  void Take(const char* field, std::uint64_t& value) noexcept;
  /** UTF-8 without NUL: the kernel's strings end at the first one. */
  void Take(const char* field, std::string_view& value) noexcept;
  void Take(const char* field, std::span<const std::uint8_t>& value) noexcept;

  /** True when all went well and nothing is left over. */
  bool Finish() noexcept;

  bool failed() const noexcept { return *error_.problem != '\0'; }
  const BadRecord& error() const noexcept { return error_; }

 private:
  std::uint32_t Word(const char* field) noexcept;
  std::span<const std::uint8_t> Bytes(const char* field) noexcept;
  void Fail(const char* field, const char* problem) noexcept;

  const char* record_;
  std::span<const std::uint8_t> rest_;
  BadRecord error_;
};

/** The record of type R, one of the schema, that has this payload. */
template <typename R>
std::expected<R, BadRecord> Read(std::span<const std::uint8_t> payload) noexcept {
  FieldReader fields(R::kName, payload);
  R record;
  std::apply([&](const auto&... field) { (fields.Take(field.name, record.*field.member), ...); },
             R::kFields);
  if (!fields.Finish()) return std::unexpected(fields.error());
  return record;
}

}  // namespace fairlead::protocol

#endif  // FAIRLEAD_PROTOCOL_RECORD_READER_H_
