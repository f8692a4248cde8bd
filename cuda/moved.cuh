// cuda/moved.cuh: elements that are moved and never read as numbers, by their size.
#pragma once

#include <cstdint>

#include "tensor/dtype.h"

namespace moonlet::cuda {

struct alignas(16) Bytes16 {
  uint64_t low, high;
};

// Calls f.template operator()<T>() with a type of as many bytes as the dtype has.
template <class F>
void visit_moved(DType t, F&& f) {
  switch (size_of(t)) {
    case 1: return f.template operator()<uint8_t>();
    case 2: return f.template operator()<uint16_t>();
    case 4: return f.template operator()<uint32_t>();
    case 8: return f.template operator()<uint64_t>();
    default: return f.template operator()<Bytes16>();
  }
}

}  // namespace moonlet::cuda
