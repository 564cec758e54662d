// Tables of iptables-legacy: native/legacy/table.h, from entries laid out as the kernel gives them.
#include <sys/socket.h>

#include "check.h"
#include "legacy/table.h"
#include "samples.h"

namespace fairlead::test {

namespace {

std::string Read(std::uint8_t family, const Bytes& entries) {
  const auto contents = legacy::ReadEntries(family, 3, entries);
  if (!contents) return contents.error();
  std::string text = std::to_string(contents->rules) + " rules";
  for (const std::string_view chain : contents->chains) text += ", " + std::string(chain);
  return text;
}

}  // namespace

TEST("entries of a legacy table are counted as rules unless they mark something") {
  for (const auto family : {std::uint8_t{AF_INET}, std::uint8_t{AF_INET6}}) {
    CHECK_EQUAL(Read(family, LegacyEntries(family)), "2 rules, KUBE-A, KUBE-B");
  }
  CHECK_EQUAL(Read(AF_INET, {}), "0 rules");
}

TEST("entries of a legacy table that do not fit are refused, wherever they end") {
  const Bytes entries = LegacyEntries(AF_INET);
  // An entry of 112 bytes and what follows it.
  constexpr std::ptrdiff_t kEntry = 112 + 40;
  for (std::ptrdiff_t length = 1; length < kEntry; ++length) {
    const Bytes part(entries.begin(), entries.begin() + kEntry + length);
    CHECK(Read(AF_INET, part).starts_with("an entry "));
  }
  Bytes wrong = entries;
  wrong[88] = 1;
  CHECK_EQUAL(Read(AF_INET, wrong), "an entry has offsets that are outside of it");
  wrong = entries;
  wrong[90] = 0;
  CHECK_EQUAL(Read(AF_INET, wrong), "an entry has offsets that are outside of it");
}

}  // namespace fairlead::test
