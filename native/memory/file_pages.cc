#include "memory/file_pages.h"

#include <sys/mman.h>

#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <vector>

namespace fairlead::memory {

namespace {

struct CloseFile {
  void operator()(std::FILE* file) const noexcept { std::fclose(file); }
};

/** Fields of a mapping in smaps. */
struct Mapping {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
  /** The mapping is of a file, and not writable. */
  bool is_constant = false;
  std::size_t resident_kb = 0;
  /** Pages that are no longer those of the file. */
  std::size_t anonymous_kb = 0;
};

constexpr std::size_t kLineBytes = 4096 + 256;

/**
 * The first line of a mapping: `00400000-00746000 r--p 00000000 fe:00 1234   /usr/bin/node`. Not
 * every line is one.
 */
bool ReadHead(const char* line, Mapping& mapping) noexcept {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
  char rights[5] = {};
  unsigned long inode = 0;
  const int read = std::sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %4s %*x %*x:%*x %lu", &begin, &end,
                               rights, &inode);
  if (read != 4) return false;
  const bool is_private = rights[3] == 'p';
  mapping = {.begin = begin,
             .end = end,
             .is_constant = inode != 0 && rights[1] == '-' && is_private};
  return true;
}

}  // namespace

std::expected<std::size_t, SystemError> ReleaseFilePages() {
  constexpr const char* kPath = "/proc/self/smaps";
  const std::unique_ptr<std::FILE, CloseFile> file(std::fopen(kPath, "re"));
  if (!file) return std::unexpected(SystemError::Last(std::string("open ") + kPath));
  std::vector<Mapping> mappings;
  std::vector<char> line(kLineBytes);
  while (std::fgets(line.data(), static_cast<int>(line.size()), file.get()) != nullptr) {
    Mapping mapping;
    std::size_t kb = 0;
    if (ReadHead(line.data(), mapping)) {
      mappings.push_back(mapping);
    } else if (!mappings.empty() && std::sscanf(line.data(), "Rss: %zu kB", &kb) == 1) {
      mappings.back().resident_kb = kb;
    } else if (!mappings.empty() && std::sscanf(line.data(), "Anonymous: %zu kB", &kb) == 1) {
      mappings.back().anonymous_kb = kb;
    }
  }
  std::size_t released = 0;
  for (const Mapping& mapping : mappings) {
    if (!mapping.is_constant || mapping.anonymous_kb > 0 || mapping.resident_kb == 0) continue;
    // The mapping may have gone in the meantime.
    if (::madvise(reinterpret_cast<void*>(mapping.begin), mapping.end - mapping.begin,
                  MADV_DONTNEED) == 0) {
      released += mapping.resident_kb * 1024;
    }
  }
  return released;
}

}  // namespace fairlead::memory
