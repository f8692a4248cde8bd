// cuda/kernels/sort.h: the stable sort of pairs that sorting, topk and ordered scatters share.
#pragma once

#include "cuda/runtime/device.h"

namespace moonlet::cuda {

// Sorts pairs by the lowest `bits` bits of their keys, upwards and stably. Keys and values are
// tensors of one dimension that hold unsigned numbers: int32 ones of 32 bits, int64 ones of 64
// (values of 64 bits have keys of 64). Others, sorted, take their place.
void sort_pairs(const Call& call, Tensor& keys, Tensor& values, int bits);

// How many bits numbers below `limit` have.
inline int bits_below(int64_t limit) {
  int bits = 0;
  while (bits < 63 && (int64_t{1} << bits) < limit) ++bits;
  return bits;
}

// What keeps unsigned numbers below `limit`.
inline DType unsigned_below(int64_t limit) {
  return limit <= int64_t{1} << 32 ? DType::Int32 : DType::Int64;
}

// Unsigned numbers of 32 or 64 bits in a kernel.
struct Numbers {
  char* data;
  bool narrow;
  explicit Numbers(const Tensor& x) : data(x.raw()), narrow(x.dtype() == DType::Int32) {}
  __device__ __forceinline__ int64_t get(int64_t i) const {
    return narrow ? static_cast<int64_t>(reinterpret_cast<const uint32_t*>(data)[i])
                  : reinterpret_cast<const int64_t*>(data)[i];
  }
  __device__ __forceinline__ void set(int64_t i, int64_t v) const {
    if (narrow)
      reinterpret_cast<uint32_t*>(data)[i] = static_cast<uint32_t>(v);
    else
      reinterpret_cast<int64_t*>(data)[i] = v;
  }
};

}  // namespace moonlet::cuda
