// cuda/kernels/common/team.cuh: the combination of values that the threads of a warp or a block
// hold, by shuffles.
#pragma once

#include <cstring>

#include "cuda/kernels/common/elements.cuh"
#include "cuda/runtime/device.h"

namespace moonlet::cuda {

inline constexpr int kWarp = 32;
inline constexpr unsigned kAllLanes = 0xffffffffu;

// Each word of a value by way of shuffle(word).
template <class T, class Shuffle>
__device__ __forceinline__ T by_words(const T& value, const Shuffle& shuffle) {
  constexpr int kWords = (sizeof(T) + 3) / 4;
  uint32_t words[kWords] = {};
  memcpy(words, &value, sizeof value);
  MOONLET_UNROLL
  for (int w = 0; w < kWords; ++w) words[w] = shuffle(words[w]);
  T out;
  memcpy(static_cast<void*>(&out), words, sizeof out);
  return out;
}

// The value of the lane `by` further on, among `width` lanes.
template <class T>
__device__ __forceinline__ T from_later_lane(const T& value, int by, int width) {
  return by_words(value,
                  [=](uint32_t word) { return __shfl_down_sync(kAllLanes, word, by, width); });
}

template <class T>
__device__ __forceinline__ T from_lane(const T& value, int lane, int width) {
  return by_words(value, [=](uint32_t word) { return __shfl_sync(kAllLanes, word, lane, width); });
}

// The combination of the values of `width` lanes, a power of two: the lanes' in order, at the first
// of them. Every lane of the warp calls it.
template <class T, class Combine>
__device__ __forceinline__ T combine_lanes(T value, int width, const Combine& combine) {
  for (int by = width / 2; by > 0; by /= 2)
    value = combine(value, from_later_lane(value, by, width));
  return value;
}

// The combination of the values of a block of kBlock threads, at each of them.
template <class T, class Combine>
__device__ T combine_block(T value, const Combine& combine) {
  constexpr int kWarps = kBlock / kWarp;
  __shared__ SharedArray<T, kWarps + 1> memory;
  T* shared = memory.get();
  value = combine_lanes(value, kWarp, combine);
  if (threadIdx.x % kWarp == 0) shared[threadIdx.x / kWarp] = value;
  __syncthreads();
  if (threadIdx.x < kWarp) {
    value = combine_lanes(T(shared[threadIdx.x % kWarps]), kWarps, combine);
    if (threadIdx.x == 0) shared[kWarps] = value;
  }
  __syncthreads();
  value = shared[kWarps];
  __syncthreads();
  return value;
}

// The same for a team: so many lanes of a warp (a power of two), or the block.
template <class T, class Combine>
__device__ __forceinline__ T combine_team(T value, int team, const Combine& combine) {
  if (team > kWarp) return combine_block(value, combine);
  return from_lane(combine_lanes(value, team, combine), 0, team);
}

// The lanes that share a row of so many packs: a power of two.
inline int lanes_for(int64_t packs) {
  int lanes = 1;
  while (lanes < kWarp && lanes < packs) lanes *= 2;
  return lanes;
}

}  // namespace moonlet::cuda
