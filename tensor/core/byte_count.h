// tensor/core/byte_count.h: numbers of bytes as sizes of memory, which have 32 bits in WebAssembly
// and 64 elsewhere.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/core/error.h"

namespace moonlet {

// Throws OutOfMemory, naming `op`, for more bytes than there are addresses.
inline size_t byte_count(int64_t bytes, const char* op) {
  const auto size = static_cast<size_t>(bytes);
  if (static_cast<uint64_t>(bytes) != size)
    throw OutOfMemory(text(op, ": out of memory: could not allocate ", bytes, " bytes on cpu"));
  return size;
}

}  // namespace moonlet
