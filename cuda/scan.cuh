// cuda/scan.cuh: inclusive running combinations along one dimension: a block per line that carries
// the total from tile to tile, or a thread per line where lines are many and lie side by side.
#pragma once

#include "cuda/device.h"
#include "cuda/geometry.cuh"

namespace moonlet::cuda {

// Op: `C load(int64_t)`, `C combine(C, C)`, `C start()`, `void store(int64_t, C)` over contiguous
// elements seen as (outer, size, inner).
template <class C, class Op>
__global__ void scan_threads_kernel(DimSplit s, Op op) {
  for (MOONLET_EACH(line, s.outer * s.inner)) {
    const int64_t base = line / s.inner * s.size * s.inner + line % s.inner;
    C total = op.start();
    for (int64_t i = 0; i < s.size; ++i) {
      total = op.combine(total, op.load(base + i * s.inner));
      op.store(base + i * s.inner, total);
    }
  }
}

// Hillis and Steele's scan (1986) of each tile.
template <class C, class Op>
__global__ void scan_blocks_kernel(DimSplit s, Op op) {
  __shared__ SharedArray<C, 2 * kBlock> memory;
  C* buffers = memory.get();
  const int me = threadIdx.x;
  for (int64_t line = blockIdx.x; line < s.outer * s.inner; line += gridDim.x) {
    const int64_t base = line / s.inner * s.size * s.inner + line % s.inner;
    C carry = op.start();
    for (int64_t tile = 0; tile < s.size; tile += kBlock) {
      C* now = buffers;
      C* next = buffers + kBlock;
      const int64_t i = tile + me;
      now[me] = i < s.size ? op.load(base + i * s.inner) : op.start();
      __syncthreads();
      for (int step = 1; step < kBlock; step *= 2) {
        next[me] = me >= step ? op.combine(now[me - step], now[me]) : now[me];
        C* other = now;
        now = next;
        next = other;
        __syncthreads();
      }
      if (i < s.size) op.store(base + i * s.inner, op.combine(carry, now[me]));
      carry = op.combine(carry, now[kBlock - 1]);
      __syncthreads();
    }
  }
}

template <class C, class Op>
void scan_by(const Call& call, const DimSplit& s, const Op& op) {
  const int64_t lines = s.outer * s.inner;
  if (lines == 0 || s.size == 0) return;
  if (s.size <= 32 || (s.inner > 1 && lines >= 4096))
    MOONLET_LAUNCH((scan_threads_kernel<C, Op>), blocks_for(lines), kBlock, 0, call.stream(), s,
                   op);
  else
    MOONLET_LAUNCH((scan_blocks_kernel<C, Op>), blocks_for(lines * kBlock), kBlock, 0,
                   call.stream(), s, op);
  call.done();
}

}  // namespace moonlet::cuda
