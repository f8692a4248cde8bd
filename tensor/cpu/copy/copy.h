// tensor/cpu/copy/copy.h: copies and fills between CPU tensors of any dtype and layout.
#pragma once

#include <cstring>

#include "tensor/core/tensor.h"
#include "tensor/cpu/common/thresholds.h"

namespace moonlet::cpu {

// Writes `in`, which must broadcast to out's shape, over `out`, converting to its dtype. The two
// share no memory: ops that write copy such an input first. Both are on the CPU.
void copy_into(Tensor& out, const Tensor& in);

inline constexpr int64_t kByteBlock = thresholds::copy::kByteBlock;
void copy_long(void* to, const void* from, int64_t bytes);
void zero_long(void* to, int64_t bytes);

// memcpy and memset to 0 of any length, which look at the stop flag between blocks.
inline void copy_bytes(void* to, const void* from, int64_t bytes) {
  if (bytes > kByteBlock) return copy_long(to, from, bytes);
  std::memcpy(to, from, static_cast<size_t>(bytes));
}
inline void zero_bytes(void* to, int64_t bytes) {
  if (bytes > kByteBlock) return zero_long(to, bytes);
  std::memset(to, 0, static_cast<size_t>(bytes));
}

}  // namespace moonlet::cpu
