#include "bpf/installation.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "bpf/layout.h"
#include "bpf/netns_cookie.h"

namespace fairlead::bpf {

namespace {

using Failure = std::unexpected<SystemError>;

/** Maps by the name that programs use. */
using Maps = std::vector<std::pair<const char*, FileDescriptor>>;

/** Before Linux 5.11 maps count as locked memory. */
void RaiseMemoryLimit() noexcept {
  const rlimit unlimited{RLIM_INFINITY, RLIM_INFINITY};
  setrlimit(RLIMIT_MEMLOCK, &unlimited);
}

bool IsOf(const std::string& path, long magic) noexcept {
  struct statfs found;
  return statfs(path.c_str(), &found) == 0 && found.f_type == magic;
}

std::string ParentOf(const std::string& path) { return path.substr(0, path.rfind('/')); }

bool IsShaped(const MapShape& shape, const Room& room, const bpf_map_info& info) noexcept {
  return info.type == shape.type && info.key_size == shape.key_bytes &&
         info.value_size == shape.value_bytes && info.max_entries == shape.EntriesMax(room) &&
         info.map_flags == shape.flags;
}

std::expected<Maps, SystemError> OpenMaps(const Place& place) {
  Maps maps;
  for (const MapShape& shape : MapsOf(place.family)) {
    auto map = OpenMap(place.PathOf(shape.name), shape);
    if (!map) return Failure(map.error());
    maps.emplace_back(shape.name, std::move(*map));
  }
  return maps;
}

/** The instructions to load: BPF_PSEUDO_MAP_FD where the program names a map. */
std::vector<std::uint64_t> Linked(const Program& program, const Maps& maps) {
  std::vector<std::uint64_t> code(program.instructions.begin(), program.instructions.end());
  for (const MapReference& reference : program.references) {
    bpf_insn instruction;
    std::memcpy(&instruction, &code[reference.index], sizeof(instruction));
    instruction.src_reg = BPF_PSEUDO_MAP_FD;
    for (const auto& [name, map] : maps) {
      if (reference.map == name) instruction.imm = map.get();
    }
    std::memcpy(&code[reference.index], &instruction, sizeof(instruction));
  }
  return code;
}

Opened Load(const Program& program, const Maps& maps) {
  return LoadProgram(program, Linked(program, maps));
}

std::expected<settings, SystemError> DesiredSettings(const Reach& reach) {
  settings desired{0, reach.all ? 1u : 0u, ProgramsVersion(), reach.counts ? 1u : 0u,
                  reach.excludes ? 1u : 0u};
  const auto cookie = NetnsCookie();
  if (cookie) {
    desired.node = *cookie;
  } else if (!reach.all) {
    return Failure(cookie.error());
  }
  return desired;
}

const MapShape& SettingsMap(std::uint8_t family) noexcept { return MapsOf(family).front(); }

const MapShape& LeaseMap(std::uint8_t family) noexcept {
  return *FindMap(family == AF_INET ? "lease4" : "lease6");
}

/** The value of a map with a single element, key 0. */
template <typename Value>
Done WriteOnly(int map_fd, const Value& value) {
  const std::uint32_t zero = 0;
  const auto written =
      UpdateElements(map_fd, reinterpret_cast<const std::uint8_t*>(&zero),
                     reinterpret_cast<const std::uint8_t*>(&value), 1);
  if (!written) return Failure(written.error().error);
  return {};
}

template <typename Value>
std::expected<Value, SystemError> ReadOnly(int map_fd) {
  Value found{};
  const std::uint32_t zero = 0;
  const Done read = LookUp(map_fd, &zero, &found);
  if (!read) return Failure(read.error());
  return found;
}

constexpr std::uint64_t kSecond = 1'000'000'000;
constexpr std::uint64_t kMillisecond = 1'000'000;

/** The clock of bpf_ktime_get_boot_ns. */
std::uint64_t SinceBoot() noexcept {
  timespec now;
  clock_gettime(CLOCK_BOOTTIME, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * kSecond +
         static_cast<std::uint64_t>(now.tv_nsec);
}

Done WriteSettings(const Place& place, const Maps& maps, const settings& desired) {
  for (const auto& [name, map] : maps) {
    if (std::strcmp(name, SettingsMap(place.family).name) != 0) continue;
    return WriteOnly(map.get(), desired);
  }
  return {};
}

std::expected<settings, SystemError> ReadSettings(const Place& place) {
  const MapShape& shape = SettingsMap(place.family);
  const auto map = OpenMap(place.PathOf(shape.name), shape);
  if (!map) return Failure(map.error());
  return ReadOnly<settings>(map->get());
}

/** The link of a program, attached to the cgroup or not. */
Done AddLink(const Place& place, const Program& program, const Maps& maps, int cgroup_fd) {
  const auto loaded = Load(program, maps);
  if (!loaded) return Failure(loaded.error());
  const std::string path = place.PathOf(program.name);
  const auto pinned = OpenPin(path);
  if (pinned) {
    if (UpdateLink(pinned->get(), loaded->get())) return {};
    // Another program has detached it, or its cgroup has gone.
    if (unlink(path.c_str()) != 0) return Failure(SystemError::Last("removing " + path));
  }
  const auto link = CreateLink(program, loaded->get(), cgroup_fd);
  if (!link) return Failure(link.error());
  return Pin(link->get(), path);
}

/** Whether the pinned link of the program is attached to the cgroup. */
std::expected<bool, SystemError> IsAttached(const std::string& path, const Program& program,
                                            std::uint64_t cgroup) {
  const auto link = OpenPin(path);
  if (!link) return Failure(link.error());
  const auto info = LinkInfo(link->get());
  if (!info) return Failure(info.error());
  return info->type == BPF_LINK_TYPE_CGROUP && info->cgroup.cgroup_id == cgroup &&
         info->cgroup.attach_type == static_cast<std::uint32_t>(program.attach_type);
}

State StateFor(std::size_t there, std::size_t right, std::size_t desired) noexcept {
  if (there == 0) return State::kAbsent;
  if (right < there) return State::kWrong;
  return there == desired ? State::kRight : State::kIncomplete;
}

std::expected<State, SystemError> MapsState(const Place& place, const Room& room) {
  std::size_t there = 0;
  std::size_t right = 0;
  const auto shapes = MapsOf(place.family);
  for (const MapShape& shape : shapes) {
    const auto map = OpenPin(place.PathOf(shape.name));
    if (!map && map.error().error == ENOENT) continue;
    if (!map) return Failure(map.error());
    const auto info = MapInfo(map->get());
    if (!info) return Failure(info.error());
    ++there;
    if (IsShaped(shape, room, *info)) ++right;
  }
  return StateFor(there, right, shapes.size());
}

std::expected<State, SystemError> LinksState(const Place& place, const Reach& reach) {
  struct stat cgroup;
  if (stat(reach.cgroup.c_str(), &cgroup) != 0) {
    return Failure(SystemError::Last("asking about " + reach.cgroup));
  }
  std::size_t there = 0;
  std::size_t right = 0;
  const auto programs = ProgramsOf(place.family);
  for (const Program& program : programs) {
    // The inode number of a folder of cgroup2 is the cgroup's id (kernfs_id).
    const auto attached = IsAttached(place.PathOf(program.name), program, cgroup.st_ino);
    if (!attached && attached.error().error == ENOENT) continue;
    if (!attached) return Failure(attached.error());
    ++there;
    if (*attached) ++right;
  }
  return StateFor(there, right, programs.size());
}

/** Whether the programs are of this version, and serve the sockets of `reach`. */
bool HasSettings(const Place& place, const Reach& reach) {
  const auto desired = DesiredSettings(reach);
  const auto found = ReadSettings(place);
  return desired && found && std::memcmp(&*desired, &*found, sizeof(settings)) == 0;
}

/** A pin of a map or of a link. */
Done RemovePin(const std::string& path) {
  const auto pin = OpenPin(path);
  if (!pin && pin.error().error == ENOENT) return {};
  // Fails for a map, which is not a link. Before Linux 5.9 a link ends with its last descriptor.
  if (pin) static_cast<void>(DetachLink(pin->get()));
  if (unlink(path.c_str()) != 0 && errno != ENOENT) {
    return Failure(SystemError::Last("removing " + path));
  }
  return {};
}

/** The files of a folder; empty if the folder does not exist. */
std::expected<std::vector<std::string>, SystemError> FilesIn(const std::string& directory) {
  struct Close {
    void operator()(DIR* folder) const noexcept { closedir(folder); }
  };
  const std::unique_ptr<DIR, Close> folder(opendir(directory.c_str()));
  std::vector<std::string> names;
  if (folder == nullptr && errno == ENOENT) return names;
  if (folder == nullptr) return Failure(SystemError::Last("reading " + directory));
  errno = 0;
  // No other thread reads this stream.
  // NOLINTNEXTLINE(concurrency-mt-unsafe)
  while (const dirent* entry = readdir(folder.get())) {
    if (entry->d_type != DT_DIR) names.emplace_back(entry->d_name);
    errno = 0;
  }
  if (errno != 0) return Failure(SystemError::Last("reading " + directory));
  return names;
}

/** In every version, the last digit of a pin's name is its family. */
bool IsOfOther(std::string_view name, std::uint8_t family) noexcept {
  return name.ends_with(family == AF_INET ? '6' : '4');
}

}  // namespace

Done AddMaps(const Place& place, const Room& room) {
  RaiseMemoryLimit();
  if (mkdir(place.directory.c_str(), 0700) != 0 && errno != EEXIST) {
    return Failure(SystemError::Last("making " + place.directory));
  }
  for (const MapShape& shape : MapsOf(place.family)) {
    const std::string path = place.PathOf(shape.name);
    if (access(path.c_str(), F_OK) == 0) continue;
    const auto map = CreateMap(shape, room);
    if (!map) return Failure(map.error());
    auto pinned = Pin(map->get(), path);
    if (!pinned) return pinned;
  }
  return {};
}

Done AddLinks(const Place& place, const Reach& reach) {
  RaiseMemoryLimit();
  const auto desired = DesiredSettings(reach);
  if (!desired) return Failure(desired.error());
  const auto maps = OpenMaps(place);
  if (!maps) return Failure(maps.error());
  const FileDescriptor cgroup(open(reach.cgroup.c_str(), O_DIRECTORY | O_CLOEXEC));
  if (!cgroup.valid()) return Failure(SystemError::Last("opening " + reach.cgroup));
  // Programs translate as soon as they are attached: with new maps, they would pass connections
  // until the settings are there. The version comes last, because it says that all are attached.
  settings attaching = *desired;
  attaching.version = 0;
  auto prepared = WriteSettings(place, *maps, attaching);
  if (!prepared) return prepared;
  for (const Program& program : ProgramsOf(place.family)) {
    auto added = AddLink(place, program, *maps, cgroup.get());
    if (!added) return added;
  }
  return WriteSettings(place, *maps, *desired);
}

Done ExtendLease(const Place& place, std::uint32_t milliseconds, bool only_valid) {
  const MapShape& shape = LeaseMap(place.family);
  const auto map = OpenMap(place.PathOf(shape.name), shape);
  if (!map) return Failure(map.error());
  const auto current = ReadOnly<lease>(map->get());
  if (!current) return Failure(current.error());
  const std::uint64_t now = SinceBoot();
  if (only_valid && current->end <= now) {
    return Failure(SystemError{ETIME, "extending the lease of programs"});
  }
  return WriteOnly(map->get(), lease{now + milliseconds * kMillisecond});
}

Done Remove(const Place& place) {
  for (const Program& program : ProgramsOf(place.family)) {
    auto removed = RemovePin(place.PathOf(program.name));
    if (!removed) return removed;
  }
  // Another version may have pinned more, such as links of programs that this one does not know.
  const auto rest = FilesIn(place.directory);
  if (!rest) return Failure(rest.error());
  for (const std::string& name : *rest) {
    if (IsOfOther(name, place.family)) continue;
    auto removed = RemovePin(place.PathOf(name.c_str()));
    if (!removed) return removed;
  }
  // The other family may have pins in the folder, or the folder may be a mount, perhaps in a
  // read-only root.
  if (rmdir(place.directory.c_str()) != 0 && errno != ENOENT && errno != ENOTEMPTY &&
      errno != EBUSY && errno != EROFS) {
    return Failure(SystemError::Last("removing " + place.directory));
  }
  return {};
}

std::expected<States, SystemError> StateOf(const Place& place, const Room& room,
                                           const Reach& reach) {
  const auto maps = MapsState(place, room);
  if (!maps) return Failure(maps.error());
  auto links = LinksState(place, reach);
  if (!links) return Failure(links.error());
  if (*links == State::kRight && !HasSettings(place, reach)) links = State::kWrong;
  return States{*maps, *links};
}

Done Probe(const Place& place, const Room& room, const Reach& reach) {
  RaiseMemoryLimit();
  // A container may mount the folder only, without its parent.
  const bool is_there = access(place.directory.c_str(), F_OK) == 0;
  const std::string home = is_there ? place.directory : ParentOf(place.directory);
  if (!IsOf(home, BPF_FS_MAGIC)) {
    return Failure(SystemError{EMEDIUMTYPE, home + " is not in a bpf file system"});
  }
  if (!IsOf(reach.cgroup, CGROUP2_SUPER_MAGIC)) {
    return Failure(SystemError{EMEDIUMTYPE, reach.cgroup + " is not a folder of cgroup2"});
  }
  const auto desired = DesiredSettings(reach);
  if (!desired) return Failure(desired.error());
  Maps maps;
  for (const MapShape& shape : MapsOf(place.family)) {
    auto map = CreateMap(shape, room);
    if (!map) return Failure(map.error());
    maps.emplace_back(shape.name, std::move(*map));
  }
  for (const Program& program : ProgramsOf(place.family)) {
    const auto loaded = Load(program, maps);
    if (!loaded) return Failure(loaded.error());
  }
  return {};
}

}  // namespace fairlead::bpf
