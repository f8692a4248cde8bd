// cuda/kernels/common/counts.cuh: counts of a block's threads, added up in their order.
#pragma once

#include "cuda/kernels/common/team.cuh"

namespace moonlet::cuda {

// How many the threads before this one in its block have. All of them call it.
__device__ inline int count_before(int mine) {
  __shared__ int warps[kBlock / kWarp];
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  int upto = mine;
  for (int by = 1; by < kWarp; by *= 2) {
    const int other = __shfl_up_sync(kAllLanes, upto, by);
    if (lane >= by) upto += other;
  }
  if (lane == kWarp - 1) warps[warp] = upto;
  __syncthreads();
  for (int w = 0; w < warp; ++w) upto += warps[w];
  __syncthreads();
  return upto - mine;
}

}  // namespace moonlet::cuda
