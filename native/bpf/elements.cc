#include "bpf/elements.h"

#include <cerrno>
#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include "protocol/ops.gen.h"

namespace fairlead::bpf {

namespace {

/** Elements per system call. A bucket with more elements cannot be read (ENOSPC). */
constexpr std::uint32_t kElementsAStep = 4096;

/**
 * The kernel takes new elements from a stock of 4 at first, and of tens later. Its interrupt fills
 * that up without waiting for memory (alloc_bulk in kernel/bpf/memalloc.c: GFP_NOWAIT; Linux 6.1).
 * So ENOMEM may be over a moment later: when a cgroup has made room, or, on a machine without such
 * interrupts (user-mode Linux), after the next tick of the timer.
 */
constexpr int kPauses = 5;
constexpr std::chrono::milliseconds kPause{10};

struct PinnedMap {
  const MapShape& shape;
  FileDescriptor fd;
};

std::expected<PinnedMap, SystemError> Open(MapAt at) {
  const MapShape* shape = FindMap(at.name);
  if (shape == nullptr) {
    return std::unexpected(SystemError{EINVAL, "unknown map " + std::string(at.name)});
  }
  auto fd = OpenMap(std::string(at.directory) + "/" + shape->name, *shape);
  if (!fd) return std::unexpected(fd.error());
  return PinnedMap{*shape, std::move(*fd)};
}

std::unexpected<Refused> Unsent(SystemError error) {
  return std::unexpected(Refused{std::nullopt, std::move(error)});
}

std::expected<void, Refused> AsRefusal(const std::expected<void, Halted>& done, MapAt at) {
  if (done) return {};
  SystemError error = done.error().error;
  error.call += " in map " + std::string(at.name);
  return std::unexpected(Refused{done.error().taken, std::move(error)});
}

using Bytes = std::span<const std::uint8_t>;

/** Adds elements in as many calls as it takes, and pauses where the stock is empty. */
std::expected<void, Halted> UpdateAll(int map_fd, const MapShape& shape, const std::uint8_t* keys,
                                      const std::uint8_t* values, std::uint32_t count) {
  std::uint32_t taken = 0;
  for (int pauses = 0;;) {
    const auto done = UpdateElements(map_fd, keys + std::size_t{taken} * shape.key_bytes,
                                     values + std::size_t{taken} * shape.value_bytes,
                                     count - taken);
    if (done) return {};
    const auto& [more, error] = done.error();
    taken += more;
    if (more > 0) pauses = 0;
    if (error.error != ENOMEM || pauses == kPauses) {
      return std::unexpected(Halted{taken, error});
    }
    pauses += 1;
    std::this_thread::sleep_for(kPause);
  }
}

/**
 * Calls `take` with the number of elements of each step, and their keys and values. The kernel
 * reads bucket by bucket, so the walk ends even if elements are added.
 */
template <typename Take>
Done Walk(MapAt at, const Take& take) {
  const auto map = Open(at);
  if (!map) return std::unexpected(map.error());
  const MapShape& shape = map->shape;
  std::vector<std::uint8_t> keys(std::size_t{kElementsAStep} * shape.key_bytes);
  std::vector<std::uint8_t> values(std::size_t{kElementsAStep} * shape.value_bytes);
  std::uint64_t position = 0;
  for (bool is_first = true;; is_first = false) {
    const auto step = ReadElements(map->fd.get(), is_first, position, keys.data(), values.data(),
                                   kElementsAStep);
    if (!step) return std::unexpected(step.error());
    take(step->count, Bytes(keys).first(std::size_t{step->count} * shape.key_bytes),
         Bytes(values).first(std::size_t{step->count} * shape.value_bytes));
    if (step->is_last) return {};
  }
}

}  // namespace

std::expected<void, Refused> AddElements(MapAt at, std::span<const std::uint8_t> keys,
                                         std::span<const std::uint8_t> values) {
  const auto map = Open(at);
  if (!map) return Unsent(map.error());
  const std::size_t count = keys.size() / map->shape.key_bytes;
  if (keys.size() != count * map->shape.key_bytes ||
      values.size() != count * map->shape.value_bytes) {
    return Unsent({EINVAL, "keys or values have the wrong length"});
  }
  return AsRefusal(UpdateAll(map->fd.get(), map->shape, keys.data(), values.data(),
                             static_cast<std::uint32_t>(count)),
                   at);
}

std::expected<void, Refused> RemoveElements(MapAt at, std::span<const std::uint8_t> keys) {
  const auto map = Open(at);
  if (!map) return Unsent(map.error());
  const std::size_t count = keys.size() / map->shape.key_bytes;
  if (keys.size() != count * map->shape.key_bytes) {
    return Unsent({EINVAL, "keys have the wrong length"});
  }
  return AsRefusal(DeleteElements(map->fd.get(), keys.data(), static_cast<std::uint32_t>(count)),
                   at);
}

Done DumpElements(MapAt at, protocol::RecordWriter& out) {
  return Walk(at, [&](std::uint32_t, Bytes keys, Bytes values) {
    if (!keys.empty()) out.Append(protocol::reply::BpfElements{keys, values});
  });
}

std::expected<std::uint32_t, SystemError> CountElements(MapAt at) {
  std::uint32_t elements = 0;
  const Done done = Walk(at, [&](std::uint32_t count, Bytes, Bytes) { elements += count; });
  if (!done) return std::unexpected(done.error());
  return elements;
}

}  // namespace fairlead::bpf
