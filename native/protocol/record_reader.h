// Reads records (src/kernel/records.ts) from a buffer of JavaScript. Reads never go beyond the
// buffer, and nothing is copied.
#ifndef FAIRLEAD_PROTOCOL_RECORD_READER_H_
#define FAIRLEAD_PROTOCOL_RECORD_READER_H_

#include <cstdint>
#include <expected>
#include <span>
#include <string>
#include <string_view>

namespace fairlead::protocol {

/**
 * Why a record is refused: it is malformed, or it asks for something invalid. All strings are
 * literals.
 */
struct BadRecord {
  const char* record = "";
  const char* field = "";
  const char* problem = "";
};

/** The error as text, e.g. `tableAdd.table is truncated`. */
std::string Words(const BadRecord& error);

/** The result of a check: nothing, or why the record is refused. */
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
  /** The next record. Must not be called at the end. After an error the reader is at its end. */
  std::expected<Record, BadRecord> Next() noexcept;

 private:
  std::span<const std::uint8_t> rest_;
};

/**
 * Reads the fields of one record in the order of the schema. The first error is kept. Every read
 * after it gives zero or an empty view, so that callers check only once, at the end.
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
  /** UTF-8. A NUL is an error, because it would end the string for the kernel. */
  void Take(const char* field, std::string_view& value) noexcept;
  void Take(const char* field, std::span<const std::uint8_t>& value) noexcept;

  /** Whether all fields were read and no bytes are left. */
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

/** Reads the payload of a record as type R, a type of the schema. */
template <typename R>
std::expected<R, BadRecord> Read(std::span<const std::uint8_t> payload) noexcept {
  FieldReader fields(R::kName, payload);
  R record;
  R::EachField(record, [&](const char* name, auto& value) { fields.Take(name, value); });
  if (!fields.Finish()) return std::unexpected(fields.error());
  return record;
}

}  // namespace fairlead::protocol

#endif  // FAIRLEAD_PROTOCOL_RECORD_READER_H_
