#include <cstdio>

#include "check.h"

namespace fairlead::test {

namespace {

int Digit(char digit) {
  if (digit >= '0' && digit <= '9') return digit - '0';
  if (digit >= 'a' && digit <= 'f') return digit - 'a' + 10;
  return -1;
}

}  // namespace

std::string Hex(std::span<const std::uint8_t> bytes) {
  std::string out;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    char digits[4];
    std::snprintf(digits, sizeof(digits), "%s%02x", i > 0 && i % 4 == 0 ? " " : "", bytes[i]);
    out += digits;
  }
  return out;
}

Bytes FromHex(std::string_view digits) {
  Bytes bytes;
  int high = -1;
  for (const char digit : digits) {
    const int value = Digit(digit);
    if (value < 0) continue;
    if (high < 0) {
      high = value;
    } else {
      bytes.push_back(static_cast<std::uint8_t>(high << 4 | value));
      high = -1;
    }
  }
  return bytes;
}

}  // namespace fairlead::test
