// tests/cpp/program/loops.h: loops that tests write down themselves.
#pragma once

#include <vector>

#include "tensor/program/fusion/loop.h"

namespace moonlet::program {

inline Loop loop_over(std::vector<int64_t> sizes) {
  Loop loop;
  loop.ndim = static_cast<int>(sizes.size());
  loop.numel = 1;
  for (int d = 0; d < loop.ndim; ++d) loop.numel *= loop.sizes[d] = sizes[d];
  return loop;
}

// A slot whose elements lie one after another.
inline Loop::Memory dense(const Loop& loop, int slot, DType dtype) {
  Loop::Memory memory;
  memory.slot = slot;
  memory.dtype = dtype;
  int64_t stride = static_cast<int64_t>(size_of(dtype));
  for (int d = 0; d < loop.ndim; ++d) {
    memory.strides[d] = stride;
    stride *= loop.sizes[d];
  }
  return memory;
}

}  // namespace moonlet::program
