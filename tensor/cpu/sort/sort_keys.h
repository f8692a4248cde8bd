// tensor/cpu/sort/sort_keys.h: unsigned numbers in the order of elements, which sorting and
// selecting compare in place of them.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

namespace moonlet::cpu {

template <size_t kSize>
using uint_of = std::conditional_t<
    kSize == 1, uint8_t,
    std::conditional_t<kSize == 2, uint16_t, std::conditional_t<kSize == 4, uint32_t, uint64_t>>>;

// An unsigned number that sorts as v does: NaN last and all alike, -0 equal to 0.
template <class T>
uint_of<sizeof(T)> key_of(T v) {
  using U = uint_of<sizeof(T)>;
  constexpr U kTop = static_cast<U>(U{1} << (sizeof(T) * 8 - 1));
  if constexpr (std::is_unsigned_v<T>) {
    return static_cast<U>(v);
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<U>(static_cast<U>(v) ^ kTop);
  } else {
    // Without branches, because signs are hard to foretell.
    U bits;
    std::memcpy(&bits, &v, sizeof bits);
    bits = bits == kTop ? U{0} : bits;
    const U flips = static_cast<U>(U{0} - static_cast<U>(bits >> (sizeof(T) * 8 - 1))) | kTop;
    return v != v ? static_cast<U>(~U{0}) : static_cast<U>(bits ^ flips);
  }
}

}  // namespace moonlet::cpu
