// tensor/cpu/common/dense_copy.h: memcpy between arrays whose addresses are nearly the same within
// a page.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "tensor/cpu/common/thresholds.h"

namespace moonlet::cpu {

// Copies from the end, so that no load comes soon after a store to a higher address.
inline void copy_backwards(char* to, const char* from, size_t bytes) {
  using Vector [[gnu::vector_size(16)]] = char;
  size_t end = bytes;
  for (; end >= sizeof(Vector[4]); end -= sizeof(Vector[4])) {
    Vector part[4];
    for (size_t k = 0; k < 4; ++k)
      std::memcpy(&part[k], from + end - (4 - k) * sizeof(Vector), sizeof(Vector));
    for (size_t k = 0; k < 4; ++k)
      std::memcpy(to + end - (4 - k) * sizeof(Vector), &part[k], sizeof(Vector));
  }
  std::memcpy(to, from, end);
}

// memcpy. Processors tell loads from earlier stores by the position in a page: where the target
// begins just behind the source there, as in a roll by one element, every load of a copy that goes
// forwards waits for the store before it, which takes ten times as long.
inline void copy_dense(void* to, const void* from, size_t bytes) {
  constexpr uintptr_t kPage = 4096, kNear = thresholds::kNearInPage;
  constexpr size_t kShort = thresholds::kLoadedFirst;
  const uintptr_t behind =
      (reinterpret_cast<uintptr_t>(to) - reinterpret_cast<uintptr_t>(from)) % kPage;
  if (bytes > kShort && behind - 1 < kNear - 1) [[unlikely]]
    return copy_backwards(static_cast<char*>(to), static_cast<const char*>(from), bytes);
  std::memcpy(to, from, bytes);
}

}  // namespace moonlet::cpu
