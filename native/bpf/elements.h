// Elements of pinned maps, many at a time.
#ifndef FAIRLEAD_BPF_ELEMENTS_H_
#define FAIRLEAD_BPF_ELEMENTS_H_

#include <cstdint>
#include <expected>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/system_error.h"
#include "bpf/system.h"
#include "protocol/record_writer.h"

namespace fairlead::bpf {

/** Why elements were not written. `entry`: the first that was not; nothing = no element was. */
struct Refused {
  std::optional<std::uint32_t> entry;
  SystemError error;
};

/** A pinned map. */
struct MapAt {
  std::string_view directory;
  std::string_view name;
};

std::expected<void, Refused> AddElements(MapAt at, std::span<const std::uint8_t> keys,
                                         std::span<const std::uint8_t> values);
std::expected<void, Refused> RemoveElements(MapAt at, std::span<const std::uint8_t> keys);

/** Appends records `bpfElements`. */
Done DumpElements(MapAt at, protocol::RecordWriter& out);

/** Reads all elements and counts them: the kernel has no count. */
std::expected<std::uint32_t, SystemError> CountElements(MapAt at);

}  // namespace fairlead::bpf

#endif  // FAIRLEAD_BPF_ELEMENTS_H_
