// bpf(2), one function per command. Paths are pins in a bpf file system.
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
/** `instructions` contain the descriptors of maps. On failure: the verifier's log. */
Opened LoadProgram(const Program& program, std::span<const std::uint64_t> instructions);
Opened CreateLink(const Program& program, int program_fd, int cgroup_fd);

Done Pin(int fd, const std::string& path);
/** ENOENT if there is no such pin. */
Opened OpenPin(const std::string& path);

/**
 * Like `OpenPin`, for a map. EPROTO if its keys and values do not have the lengths of the shape:
 * the kernel would write values of any length into the caller's buffer.
 */
Opened OpenMap(const std::string& path, const MapShape& shape);

/** Replaces the program of a link atomically. */
Done UpdateLink(int link_fd, int program_fd);
/** Takes effect immediately, not when the last descriptor is closed. Linux 5.9. */
Done DetachLink(int link_fd);

std::expected<bpf_map_info, SystemError> MapInfo(int fd);
std::expected<bpf_link_info, SystemError> LinkInfo(int fd);

/** How many elements were written before the one that failed. */
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
 * Reads at most `count` elements, from `position` on, and moves it for the next call. `is_first`:
 * from the start.
 */
std::expected<Batch, SystemError> ReadElements(int map_fd, bool is_first, std::uint64_t& position,
                                               std::uint8_t* keys, std::uint8_t* values,
                                               std::uint32_t count);

/** Objects with ids. Opening one by id needs CAP_SYS_ADMIN. */
enum class Kind { kLink, kProgram, kMap };
/** ENOENT if no object has this id. */
Opened OpenById(Kind kind, std::uint32_t id);
/** The id of the machine's next link after `id`; ENOENT after the last one. Linux 5.8. */
std::expected<std::uint32_t, SystemError> NextLink(std::uint32_t id);

struct ProgramFacts {
  std::uint32_t type = 0;
  std::string name;
  /** The ids of maps that it uses; the first 32. */
  std::vector<std::uint32_t> maps;
};
std::expected<ProgramFacts, SystemError> ProgramInfo(int fd);

/**
 * The ids of the programs of type `type` that run for a process in this folder of cgroup2, at
 * whichever cgroup they are attached. Needs CAP_NET_ADMIN.
 */
std::expected<std::vector<std::uint32_t>, SystemError> EffectivePrograms(int cgroup_fd,
                                                                         bpf_attach_type type);

/** Reads one element. `value` has room for `value_size` of the map's information. */
Done LookUp(int map_fd, const void* key, void* value);

}  // namespace fairlead::bpf

#endif  // FAIRLEAD_BPF_SYSTEM_H_
