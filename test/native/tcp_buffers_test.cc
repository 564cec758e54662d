// What the kernel says of the memory of a socket.
#include <array>
#include <cstdint>

#include "check.h"
#include "tcp/buffers.h"

namespace fairlead::test {

namespace {

using Values = std::array<std::uint32_t, SK_MEMINFO_VARS>;

Values Answer(std::uint32_t received, std::uint32_t queued, std::int32_t ready) {
  Values values{};
  values[SK_MEMINFO_RMEM_ALLOC] = received;
  values[SK_MEMINFO_WMEM_QUEUED] = queued;
  values[SK_MEMINFO_FWD_ALLOC] = static_cast<std::uint32_t>(ready);
  return values;
}

}  // namespace

TEST("a socket that owes memory holds no more than it has") {
  CHECK_EQUAL(tcp::BufferedBytes(Answer(70'000, 5000, 4096)), 79'096U);
  CHECK_EQUAL(tcp::BufferedBytes(Answer(70'000, 5000, -4096)), 70'904U);
  CHECK_EQUAL(tcp::BufferedBytes(Answer(0, 0, -4096)), 0U);
}

}  // namespace fairlead::test
