// cuda/kernels/common/faults.cuh: how kernels report what is wrong with values, and positions of
// elements, counted from 1, as they read them: those outside are reported and left out.
#pragma once

#include <cuda_runtime.h>

#include "cuda/runtime/device.h"
#include "cuda/runtime/faults.h"

namespace moonlet::cuda {

__device__ inline void report(const Reporter& to, int64_t value, int64_t size) {
  if (atomicExch(to.taken, 1u) != 0) return;
  to.slot->fault = to.fault;
  to.slot->op = to.op;
  to.slot->value = value;
  to.slot->size = size;
  __threadfence_system();
  *static_cast<volatile int*>(&to.slot->written) = 1;
}

// Positions in 1 to `size`; from -size to -1 too where `negative`.
struct Positions {
  const int64_t* at;
  int64_t size;
  bool negative;
  Reporter reporter;

  // The position, counted from 0, of entry `i`, or -1 where there is none.
  __device__ __forceinline__ int64_t position(int64_t i) const {
    const int64_t given = at[i];
    if (given >= 1 && given <= size) return given - 1;
    if (negative && given <= -1 && given >= -size) return given + size;
    report(reporter, given, size);
    return -1;
  }
};

// `plain` is contiguous int64 (see `converted`) and outlives the launch.
inline Positions positions_in(const char* op, const Tensor& plain, int64_t size,
                              bool negative = false) {
  return {plain.elements<int64_t>(), size, negative,
          reporter(plain.device().index, op, Fault::Position)};
}

// Reports what is wrong with `count` of them, where nothing is read or written there.
void check_positions(const Call& call, const Positions& positions, int64_t count);

}  // namespace moonlet::cuda
