// The programs and the maps that they share.
#ifndef FAIRLEAD_BPF_PROGRAMS_H_
#define FAIRLEAD_BPF_PROGRAMS_H_

#include <linux/bpf.h>

#include <cstdint>
#include <span>
#include <string_view>

namespace fairlead::bpf {

/** Sizes of the maps of one family, in elements. */
struct Room {
  std::uint32_t frontends;
  std::uint32_t endpoints;
};

/** How a map is created. */
struct MapShape {
  const char* name;
  std::uint32_t type;
  std::uint32_t key_bytes;
  std::uint32_t value_bytes;
  std::uint32_t entries_max;
  std::uint32_t flags;
  /** If set, this member of Room is the size. */
  std::uint32_t Room::* asked = nullptr;

  std::uint32_t EntriesMax(const Room& room) const noexcept {
    return asked == nullptr ? entries_max : room.*asked;
  }
};

/** The instruction at `index` loads the map of this name, and needs its descriptor. */
struct MapReference {
  std::uint32_t index;
  std::string_view map;
};

/** A compiled program. */
struct Program {
  const char* name;
  bpf_attach_type attach_type;
  /** In the kernel's form, struct bpf_insn. */
  std::span<const std::uint64_t> instructions;
  std::span<const MapReference> references;
};

/** The programs of AF_INET or AF_INET6; empty for another family. */
std::span<const MapShape> MapsOf(std::uint8_t family) noexcept;
std::span<const Program> ProgramsOf(std::uint8_t family) noexcept;

/** Differs between any two versions of the programs. */
std::uint32_t ProgramsVersion() noexcept;

/** Nothing = no map has this name. */
const MapShape* FindMap(std::string_view name) noexcept;

}  // namespace fairlead::bpf

#endif  // FAIRLEAD_BPF_PROGRAMS_H_
