#include "bpf/system.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

namespace fairlead::bpf {

namespace {

using Failure = std::unexpected<SystemError>;

/** Smaller structures of kernels before 5.8 are not tried: programs need 5.8. */
int Call(bpf_cmd command, bpf_attr& attr) noexcept {
  for (;;) {
    const long result = syscall(SYS_bpf, command, &attr, sizeof(attr));
    if (result >= 0 || errno != EAGAIN || command != BPF_PROG_LOAD) {
      return static_cast<int>(result);
    }
  }
}

/** All bytes are zero, padding too: the kernel refuses other values in unknown fields. */
bpf_attr Zero() noexcept {
  bpf_attr attr;
  std::memset(&attr, 0, sizeof(attr));
  return attr;
}

std::uint64_t Address(const void* pointer) noexcept {
  return reinterpret_cast<std::uintptr_t>(pointer);
}

void SetName(char (&to)[BPF_OBJ_NAME_LEN], const char* name) noexcept {
  std::strncpy(to, name, BPF_OBJ_NAME_LEN - 1);
}

Opened Open(bpf_cmd command, bpf_attr& attr, std::string call) {
  const int fd = Call(command, attr);
  if (fd < 0) return Failure(SystemError::Last(std::move(call)));
  return FileDescriptor(fd);
}

Done Do(bpf_cmd command, bpf_attr& attr, std::string call) {
  if (Call(command, attr) < 0) return Failure(SystemError::Last(std::move(call)));
  return {};
}

/** The last lines of the log: the verifier's complaint is at the end. */
std::string_view Tail(std::string_view log) noexcept {
  constexpr std::size_t kBytes = 400;
  while (!log.empty() && log.back() == '\n') log.remove_suffix(1);
  if (log.size() <= kBytes) return log;
  log.remove_prefix(log.size() - kBytes);
  const auto line = log.find('\n');
  return line == log.npos ? log : log.substr(line + 1);
}

bpf_attr LoadAttributes(const Program& program, std::span<const std::uint64_t> instructions) {
  bpf_attr attr = Zero();
  attr.prog_type = BPF_PROG_TYPE_CGROUP_SOCK_ADDR;
  attr.expected_attach_type = program.attach_type;
  attr.insns = Address(instructions.data());
  attr.insn_cnt = static_cast<std::uint32_t>(instructions.size());
  attr.license = Address("Apache-2.0");
  SetName(attr.prog_name, program.name);
  return attr;
}

template <typename Info>
std::expected<Info, SystemError> InfoOf(int fd, const char* call) {
  Info info;
  std::memset(&info, 0, sizeof(info));
  bpf_attr attr = Zero();
  attr.info.bpf_fd = static_cast<std::uint32_t>(fd);
  attr.info.info_len = sizeof(info);
  attr.info.info = Address(&info);
  if (Call(BPF_OBJ_GET_INFO_BY_FD, attr) < 0) return Failure(SystemError::Last(call));
  return info;
}

std::expected<void, Halted> CallBatch(bpf_cmd command, bpf_attr& attr, const char* call) {
  const std::uint32_t asked = attr.batch.count;
  if (Call(command, attr) == 0) return {};
  // The kernel leaves the count as it is when it refuses the whole call (bpf_map_do_batch).
  const std::uint32_t taken = attr.batch.count < asked ? attr.batch.count : 0;
  return std::unexpected(Halted{taken, SystemError::Last(call)});
}

bpf_attr BatchAttributes(int map_fd, const std::uint8_t* keys, const std::uint8_t* values,
                         std::uint32_t count) {
  bpf_attr attr = Zero();
  attr.batch.map_fd = static_cast<std::uint32_t>(map_fd);
  attr.batch.keys = Address(keys);
  attr.batch.values = Address(values);
  attr.batch.count = count;
  return attr;
}

}  // namespace

Opened CreateMap(const MapShape& shape, const Room& room) {
  bpf_attr attr = Zero();
  attr.map_type = shape.type;
  attr.key_size = shape.key_bytes;
  attr.value_size = shape.value_bytes;
  attr.max_entries = shape.EntriesMax(room);
  attr.map_flags = shape.flags;
  SetName(attr.map_name, shape.name);
  return Open(BPF_MAP_CREATE, attr, std::string("making map ") + shape.name);
}

Opened LoadProgram(const Program& program, std::span<const std::uint64_t> instructions) {
  std::string call = std::string("loading program ") + program.name;
  bpf_attr attr = LoadAttributes(program, instructions);
  const int fd = Call(BPF_PROG_LOAD, attr);
  if (fd >= 0) return FileDescriptor(fd);
  SystemError error = SystemError::Last(std::move(call));
  // Try again with the verifier's log, which takes time.
  std::array<char, std::size_t{64} * 1024> log{};
  attr.log_level = 1;
  attr.log_buf = Address(log.data());
  attr.log_size = log.size();
  const int logged = Call(BPF_PROG_LOAD, attr);
  if (logged >= 0) return FileDescriptor(logged);
  const std::string_view words = Tail(log.data());
  if (!words.empty()) error.call += " (" + std::string(words) + ")";
  return Failure(error);
}

Opened CreateLink(const Program& program, int program_fd, int cgroup_fd) {
  bpf_attr attr = Zero();
  attr.link_create.prog_fd = static_cast<std::uint32_t>(program_fd);
  attr.link_create.target_fd = static_cast<std::uint32_t>(cgroup_fd);
  attr.link_create.attach_type = program.attach_type;
  return Open(BPF_LINK_CREATE, attr, std::string("attaching program ") + program.name);
}

Done Pin(int fd, const std::string& path) {
  bpf_attr attr = Zero();
  attr.pathname = Address(path.c_str());
  attr.bpf_fd = static_cast<std::uint32_t>(fd);
  return Do(BPF_OBJ_PIN, attr, "pinning " + path);
}

Opened OpenPin(const std::string& path) {
  bpf_attr attr = Zero();
  attr.pathname = Address(path.c_str());
  return Open(BPF_OBJ_GET, attr, "opening " + path);
}

Opened OpenMap(const std::string& path, const MapShape& shape) {
  auto map = OpenPin(path);
  if (!map) return map;
  const auto info = MapInfo(map->get());
  if (!info) return Failure(info.error());
  if (info->type == shape.type && info->key_size == shape.key_bytes &&
      info->value_size == shape.value_bytes) {
    return map;
  }
  return Failure(SystemError{EPROTO, "opening " + path + ": keys of " +
                                         std::to_string(info->key_size) + " bytes and values of " +
                                         std::to_string(info->value_size) +
                                         " are of another version"});
}

Done UpdateLink(int link_fd, int program_fd) {
  bpf_attr attr = Zero();
  attr.link_update.link_fd = static_cast<std::uint32_t>(link_fd);
  attr.link_update.new_prog_fd = static_cast<std::uint32_t>(program_fd);
  return Do(BPF_LINK_UPDATE, attr, "replacing the program of a link");
}

Done DetachLink(int link_fd) {
  bpf_attr attr = Zero();
  attr.link_detach.link_fd = static_cast<std::uint32_t>(link_fd);
  return Do(BPF_LINK_DETACH, attr, "detaching a link");
}

std::expected<bpf_map_info, SystemError> MapInfo(int fd) {
  return InfoOf<bpf_map_info>(fd, "asking about a map");
}

std::expected<bpf_link_info, SystemError> LinkInfo(int fd) {
  return InfoOf<bpf_link_info>(fd, "asking about a link");
}

std::expected<void, Halted> UpdateElements(int map_fd, const std::uint8_t* keys,
                                           const std::uint8_t* values, std::uint32_t count) {
  bpf_attr attr = BatchAttributes(map_fd, keys, values, count);
  return CallBatch(BPF_MAP_UPDATE_BATCH, attr, "adding elements");
}

std::expected<void, Halted> DeleteElements(int map_fd, const std::uint8_t* keys,
                                           std::uint32_t count) {
  bpf_attr attr = BatchAttributes(map_fd, keys, nullptr, count);
  return CallBatch(BPF_MAP_DELETE_BATCH, attr, "deleting elements");
}

std::expected<Batch, SystemError> ReadElements(int map_fd, bool is_first, std::uint64_t& position,
                                               std::uint8_t* keys, std::uint8_t* values,
                                               std::uint32_t count) {
  bpf_attr attr = BatchAttributes(map_fd, keys, values, count);
  if (!is_first) attr.batch.in_batch = Address(&position);
  attr.batch.out_batch = Address(&position);
  if (Call(BPF_MAP_LOOKUP_BATCH, attr) == 0) return Batch{attr.batch.count, false};
  if (errno == ENOENT) return Batch{attr.batch.count, true};
  return Failure(SystemError::Last("reading elements"));
}

Opened OpenById(Kind kind, std::uint32_t id) {
  bpf_attr attr = Zero();
  // The three ids are one field of the union.
  attr.prog_id = id;
  const std::string number = std::to_string(id);
  switch (kind) {
    case Kind::kLink:
      return Open(BPF_LINK_GET_FD_BY_ID, attr, "opening link " + number);
    case Kind::kProgram:
      return Open(BPF_PROG_GET_FD_BY_ID, attr, "opening program " + number);
    case Kind::kMap:
      return Open(BPF_MAP_GET_FD_BY_ID, attr, "opening map " + number);
  }
  return Failure(SystemError{EINVAL, "opening by id"});
}

std::expected<std::uint32_t, SystemError> NextLink(std::uint32_t id) {
  bpf_attr attr = Zero();
  attr.start_id = id;
  if (Call(BPF_LINK_GET_NEXT_ID, attr) < 0) return Failure(SystemError::Last("listing links"));
  return attr.next_id;
}

std::expected<ProgramFacts, SystemError> ProgramInfo(int fd) {
  std::array<std::uint32_t, 32> maps{};
  bpf_prog_info info;
  std::memset(&info, 0, sizeof(info));
  info.nr_map_ids = maps.size();
  info.map_ids = Address(maps.data());
  bpf_attr attr = Zero();
  attr.info.bpf_fd = static_cast<std::uint32_t>(fd);
  attr.info.info_len = sizeof(info);
  attr.info.info = Address(&info);
  if (Call(BPF_OBJ_GET_INFO_BY_FD, attr) < 0) {
    return Failure(SystemError::Last("asking about a program"));
  }
  const std::size_t count = std::min<std::size_t>(info.nr_map_ids, maps.size());
  const std::string name(info.name, strnlen(info.name, sizeof(info.name)));
  return ProgramFacts{info.type, name, {maps.begin(), maps.begin() + count}};
}

std::expected<std::vector<std::uint32_t>, SystemError> EffectivePrograms(int cgroup_fd,
                                                                         bpf_attach_type type) {
  std::vector<std::uint32_t> ids(64);
  bpf_attr attr = Zero();
  attr.query.target_fd = static_cast<std::uint32_t>(cgroup_fd);
  attr.query.attach_type = type;
  attr.query.query_flags = BPF_F_QUERY_EFFECTIVE;
  attr.query.prog_ids = Address(ids.data());
  attr.query.prog_cnt = static_cast<std::uint32_t>(ids.size());
  // ENOSPC: there are more, and those that fit are there.
  if (Call(BPF_PROG_QUERY, attr) < 0 && errno != ENOSPC) {
    return Failure(SystemError::Last("asking which programs are attached"));
  }
  ids.resize(std::min<std::size_t>(attr.query.prog_cnt, ids.size()));
  return ids;
}

Done LookUp(int map_fd, const void* key, void* value) {
  bpf_attr attr = Zero();
  attr.map_fd = static_cast<std::uint32_t>(map_fd);
  attr.key = Address(key);
  attr.value = Address(value);
  return Do(BPF_MAP_LOOKUP_ELEM, attr, "reading an element");
}

}  // namespace fairlead::bpf
