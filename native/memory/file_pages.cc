#include "memory/file_pages.h"

#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
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

std::expected<std::vector<Mapping>, SystemError> ReadMappings() {
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
  return mappings;
}

/** What the loader's lock is held for. */
struct Release {
  /** Read with the lock: no loaded object can be unmapped, so that none of its addresses is new. */
  std::optional<std::expected<std::vector<Mapping>, SystemError>> mappings;
  std::size_t bytes = 0;
};

/** Releases the mappings that are a part of this segment of a loaded object. */
void ReleaseSegment(std::uintptr_t begin, std::uintptr_t end, Release& release) noexcept {
  for (const Mapping& mapping : **release.mappings) {
    if (!mapping.is_constant || mapping.anonymous_kb > 0 || mapping.resident_kb == 0) continue;
    const std::uintptr_t from = std::max(begin, mapping.begin);
    const std::uintptr_t to = std::min(end, mapping.end);
    if (from >= to) continue;
    if (::madvise(reinterpret_cast<void*>(from), to - from, MADV_DONTNEED) == 0) {
      release.bytes += std::min<std::size_t>(mapping.resident_kb * 1024, to - from);
    }
  }
}

/** The loader calls it for each loaded object. Another value than 0 ends that. */
int ReleaseObject(dl_phdr_info* object, std::size_t, void* data) {
  auto& release = *static_cast<Release*>(data);
  if (!release.mappings) release.mappings = ReadMappings();
  if (!release.mappings->has_value()) return 1;
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = object->dlpi_phdr[i];
    if (segment.p_type != PT_LOAD || (segment.p_flags & PF_W) != 0) continue;
    const std::uintptr_t begin = object->dlpi_addr + segment.p_vaddr;
    ReleaseSegment(begin & ~(page - 1), (begin + segment.p_memsz + page - 1) & ~(page - 1),
                   release);
  }
  return 0;
}

}  // namespace

std::expected<std::size_t, SystemError> ReleaseFilePages() {
  Release release;
  ::dl_iterate_phdr(ReleaseObject, &release);
  // At least the program itself is loaded.
  if (release.mappings && !release.mappings->has_value()) {
    return std::unexpected(std::move(release.mappings->error()));
  }
  return release.bytes;
}

}  // namespace fairlead::memory
