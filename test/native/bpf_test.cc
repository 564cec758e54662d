// What is said of elements that bpf(2) has not written.
#include <array>
#include <cstdint>

#include "bpf/system.h"
#include "check.h"

namespace fairlead::test {

TEST("a batch of elements that the kernel does not begin has written none") {
  constexpr int kNoMap = -1;
  const std::array<std::uint8_t, 40> bytes{};
  const auto updated = bpf::UpdateElements(kNoMap, bytes.data(), bytes.data(), 5);
  CHECK(!updated);
  CHECK_EQUAL(updated.error().taken, 0U);
  const auto deleted = bpf::DeleteElements(kNoMap, bytes.data(), 5);
  CHECK(!deleted);
  CHECK_EQUAL(deleted.error().taken, 0U);
}

}  // namespace fairlead::test
