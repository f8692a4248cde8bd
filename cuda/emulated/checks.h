// cuda/emulated/checks.h: what the emulated libraries ask of the memory that they are given.
#pragma once

#include <cstddef>

#include "state.h"

namespace moonlet::emulated {

/// Elements from the first to past the last of a column-major matrix.
inline std::size_t span(long long rows, long long columns, long long step) {
  if (rows == 0 || columns == 0) return 0;
  return static_cast<std::size_t>((columns - 1) * step + rows);
}

/// Whether all of it is memory that libraries on the current device may use.
inline bool on_device(const void* pointer, std::size_t bytes) {
  if (bytes == 0) return true;
  const int device = owner(pointer, bytes);
  return device >= 0 && may_access(device);
}

}  // namespace moonlet::emulated
