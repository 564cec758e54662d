// The system calls that read and replace tables.
#ifndef FAIRLEAD_LEGACY_TABLE_SOCKET_H_
#define FAIRLEAD_LEGACY_TABLE_SOCKET_H_

#include <cstddef>
#include <cstdint>
#include <expected>
#include <span>
#include <string>
#include <vector>

#include "base/file_descriptor.h"
#include "base/system_error.h"
#include "legacy/table.h"

namespace fairlead::legacy {

/**
 * The names of the tables that this network namespace has. A table that is asked for comes into
 * being if the kernel can make it (xt_find_table_lock), so only these are.
 */
std::expected<std::vector<std::string>, SystemError> TableNames(std::uint8_t family);

class TableSocket {
 public:
  /** `family`: AF_INET or AF_INET6. */
  static std::expected<TableSocket, SystemError> Open(std::uint8_t family);

  /** ENOENT when there is no such table. */
  std::expected<void, SystemError> Read(const std::string& name);

  /** What was read; the entries and names of `table` are valid until the next reading. */
  const Hooks& hooks() const noexcept { return hooks_; }
  std::span<const std::uint8_t> entries() const noexcept;
  const Table& table() const noexcept { return table_; }

  /**
   * Replaces what was read by what is left of it, in one step, and gives each entry its counters
   * back. EAGAIN when the table has another number of entries by now.
   */
  std::expected<void, SystemError> Replace(const std::string& name, const Remainder& left);

 private:
  TableSocket(FileDescriptor socket, std::uint8_t family) noexcept;

  FileDescriptor socket_;
  std::uint8_t family_;
  int level_;
  Hooks hooks_;
  std::vector<std::uint8_t> answer_;
  Table table_;
};

}  // namespace fairlead::legacy

#endif  // FAIRLEAD_LEGACY_TABLE_SOCKET_H_
