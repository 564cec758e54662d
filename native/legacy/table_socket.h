// Reads and replaces tables with getsockopt(2) and setsockopt(2).
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
 * The names of the tables that this network namespace has, from ip_tables_names. Only these may be
 * read, because reading another one would make it (xt_find_table_lock).
 */
std::expected<std::vector<std::string>, SystemError> TableNames(std::uint8_t family);

class TableSocket {
 public:
  /** `family`: AF_INET or AF_INET6. */
  static std::expected<TableSocket, SystemError> Open(std::uint8_t family);

  /** Reads a table. ENOENT when it does not exist. */
  std::expected<void, SystemError> Read(const std::string& name);

  // The table that was read last. Entries and names are valid until the next call of Read.
  const Hooks& hooks() const noexcept { return hooks_; }
  std::span<const std::uint8_t> entries() const noexcept;
  const Table& table() const noexcept { return table_; }

  /**
   * Replaces the table that was read with `left`, in one step, and restores the counters of its
   * entries. EAGAIN when the table has another number of entries by now.
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
