// Numbers in network order (big endian), as in attributes of nf_tables, and in host order.
#ifndef FAIRLEAD_WIRE_BYTE_ORDER_H_
#define FAIRLEAD_WIRE_BYTE_ORDER_H_

#include <bit>
#include <concepts>
#include <cstdint>
#include <cstring>

namespace fairlead::wire {

template <std::unsigned_integral T>
constexpr T BigEndian(T value) noexcept {
  if constexpr (std::endian::native == std::endian::little) {
    return std::byteswap(value);
  } else {
    return value;
  }
}

template <typename T>
T LoadHost(const std::uint8_t* from) noexcept {
  T value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

template <typename T>
void StoreHost(std::uint8_t* to, T value) noexcept {
  std::memcpy(to, &value, sizeof(value));
}

template <std::unsigned_integral T>
T LoadBe(const std::uint8_t* from) noexcept {
  return BigEndian(LoadHost<T>(from));
}

template <std::unsigned_integral T>
void StoreBe(std::uint8_t* to, T value) noexcept {
  StoreHost(to, BigEndian(value));
}

}  // namespace fairlead::wire

#endif  // FAIRLEAD_WIRE_BYTE_ORDER_H_
