// bpf(2), one function a command. Paths are those of pins in a bpf file system.
#ifndef FAIRLEAD_BPF_SYSTEM_H_
#define FAIRLEAD_BPF_SYSTEM_H_

#include <linux/bpf.h>

#include <cstdint>
#include <expected>
#include <span>
#include <string>
#include <vector>

#include "base/file_descriptor.h"
#include "base/system_error.h"
#include "bpf/programs.h"

namespace fairlead::bpf {

using Done = std::expected<void, SystemError>;
using Opened = std::expected<FileDescriptor, SystemError>;

Opened CreateMap(const MapShape& shape, const Room& room);
/** `instructions` with the descriptors of maps in place. On failure: the verifier's words. */
Opened LoadProgram(const Program& program, std::span<const std::uint64_t> instructions);
Opened CreateLink(const Program& program, int program_fd, int cgroup_fd);

Done Pin(int fd, const std::string& path);
/** ENOENT when there is none. */
Opened OpenPin(const std::string& path);

/**
 * As `OpenPin`, for a map whose keys and values have the lengths of the shape: the kernel writes
 * into a caller's buffer whatever length the map's values have. EPROTO: they have others.
 */
Opened OpenMap(const std::string& path, const MapShape& shape);

/** Another program for a link, in one step. */
Done UpdateLink(int link_fd, int program_fd);
/** Connections notice it at once, and not when the last descriptor is closed. Linux 5.9. */
Done DetachLink(int link_fd);

std::expected<bpf_map_info, SystemError> MapInfo(int fd);
std::expected<bpf_link_info, SystemError> LinkInfo(int fd);

/** How many elements were taken before the one that failed. */
struct Halted {
  std::uint32_t taken = 0;
  SystemError error;
};
std::expected<void, Halted> UpdateElements(int map_fd, const std::uint8_t* keys,
                                           const std::uint8_t* values, std::uint32_t count);
std::expected<void, Halted> DeleteElements(int map_fd, const std::uint8_t* keys,
                                           std::uint32_t count);

/** One step through a map of hashes or an array. */
struct Batch {
  std::uint32_t count = 0;
  bool is_last = false;
};
/**
 * Reads at most `count` elements. `position` is where to go on, and where the next call does;
 * `is_first`: at the start.
 */
std::expected<Batch, SystemError> ReadElements(int map_fd, bool is_first, std::uint64_t& position,
                                               std::uint8_t* keys, std::uint8_t* values,
                                               std::uint32_t count);

/** What has ids. Opening one needs CAP_SYS_ADMIN. */
enum class Kind { kLink, kProgram, kMap };
/** ENOENT when there is none with this id. */
Opened OpenById(Kind kind, std::uint32_t id);
/** The id of the next link of the machine after `id`; ENOENT: there is none. Linux 5.8. */
std::expected<std::uint32_t, SystemError> NextLink(std::uint32_t id);

struct ProgramFacts {
  std::uint32_t type = 0;
  std::string name;
  /** The ids of maps that it uses; the first 32. */
  std::vector<std::uint32_t> maps;
};
std::expected<ProgramFacts, SystemError> ProgramInfo(int fd);

/**
 * The ids of the programs that a process in this folder of cgroup2 meets at `type`, wherever they
 * are attached. Needs CAP_NET_ADMIN.
 */
std::expected<std::vector<std::uint32_t>, SystemError> EffectivePrograms(int cgroup_fd,
                                                                         bpf_attach_type type);

/** Reads one element. `value` has room for what the map's information says. */
Done LookUp(int map_fd, const void* key, void* value);

}  // namespace fairlead::bpf

#endif  // FAIRLEAD_BPF_SYSTEM_H_
