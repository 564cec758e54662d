#include "bpf/programs.h"

#include <sys/socket.h>

#include "bpf/layout.h"
#include "bpf/programs.gen.h"

namespace fairlead::bpf {

namespace {

/** Frontends and endpoints that have had connections. The agent deletes those that it has read. */
constexpr std::uint32_t kCountsMax = 1u << 17;
/** The pods of one node, and `kAllExcluded`. */
constexpr std::uint32_t kExcludedMax = (1u << 12) + 1;
/** LRU: the kernel evicts the least recently used connection. It allocates all in advance. */
constexpr std::uint32_t kPeersMax = 1u << 15;

constexpr MapShape kMaps4[] = {
    {"settings4", BPF_MAP_TYPE_ARRAY, sizeof(__u32), sizeof(settings), 1, 0},
    {"frontends4", BPF_MAP_TYPE_HASH, sizeof(frontend), sizeof(pool), 0, BPF_F_NO_PREALLOC,
     &Room::frontends},
    {"endpoints4", BPF_MAP_TYPE_HASH, sizeof(group_key), sizeof(group), 0, BPF_F_NO_PREALLOC,
     &Room::endpoints},
    {"peers4", BPF_MAP_TYPE_LRU_HASH, sizeof(__u64), sizeof(peer), kPeersMax, 0},
    {"counts4", BPF_MAP_TYPE_HASH, sizeof(counted), sizeof(__u64), kCountsMax, BPF_F_NO_PREALLOC},
    {"excluded4", BPF_MAP_TYPE_HASH, sizeof(excluded), sizeof(__u32), kExcludedMax,
     BPF_F_NO_PREALLOC},
    {"lease4", BPF_MAP_TYPE_ARRAY, sizeof(__u32), sizeof(lease), 1, 0},
    {"secret4", BPF_MAP_TYPE_ARRAY, sizeof(__u32), sizeof(secret), 1, 0},
};

constexpr MapShape kMaps6[] = {
    {"settings6", BPF_MAP_TYPE_ARRAY, sizeof(__u32), sizeof(settings), 1, 0},
    {"frontends6", BPF_MAP_TYPE_HASH, sizeof(frontend), sizeof(pool), 0, BPF_F_NO_PREALLOC,
     &Room::frontends},
    {"endpoints6", BPF_MAP_TYPE_HASH, sizeof(group_key), sizeof(group), 0, BPF_F_NO_PREALLOC,
     &Room::endpoints},
    {"peers6", BPF_MAP_TYPE_LRU_HASH, sizeof(__u64), sizeof(peer), kPeersMax, 0},
    {"counts6", BPF_MAP_TYPE_HASH, sizeof(counted), sizeof(__u64), kCountsMax, BPF_F_NO_PREALLOC},
    {"excluded6", BPF_MAP_TYPE_HASH, sizeof(excluded), sizeof(__u32), kExcludedMax,
     BPF_F_NO_PREALLOC},
    {"lease6", BPF_MAP_TYPE_ARRAY, sizeof(__u32), sizeof(lease), 1, 0},
    {"secret6", BPF_MAP_TYPE_ARRAY, sizeof(__u32), sizeof(secret), 1, 0},
};

/** IPv6 sockets connect to IPv4 addresses, too. */
constexpr Program kPrograms4[] = {
    {"connect4", BPF_CGROUP_INET4_CONNECT, kConnect4Code, kConnect4Maps},
    {"mapped4", BPF_CGROUP_INET6_CONNECT, kMapped4Code, kMapped4Maps},
    {"peer4", BPF_CGROUP_INET4_GETPEERNAME, kPeer4Code, kPeer4Maps},
    {"mapped_peer4", BPF_CGROUP_INET6_GETPEERNAME, kMappedPeer4Code, kMappedPeer4Maps},
};

constexpr Program kPrograms6[] = {
    {"connect6", BPF_CGROUP_INET6_CONNECT, kConnect6Code, kConnect6Maps},
    {"peer6", BPF_CGROUP_INET6_GETPEERNAME, kPeer6Code, kPeer6Maps},
};

}  // namespace

std::span<const MapShape> MapsOf(std::uint8_t family) noexcept {
  if (family == AF_INET) return kMaps4;
  if (family == AF_INET6) return kMaps6;
  return {};
}

std::span<const Program> ProgramsOf(std::uint8_t family) noexcept {
  if (family == AF_INET) return kPrograms4;
  if (family == AF_INET6) return kPrograms6;
  return {};
}

std::uint32_t ProgramsVersion() noexcept { return kVersion; }

const MapShape* FindMap(std::string_view name) noexcept {
  for (const int family : {AF_INET, AF_INET6}) {
    for (const MapShape& shape : MapsOf(static_cast<std::uint8_t>(family))) {
      if (name == shape.name) return &shape;
    }
  }
  return nullptr;
}

}  // namespace fairlead::bpf
