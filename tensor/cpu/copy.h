// tensor/cpu/copy.h: copies and fills between CPU tensors of any dtype and layout.
#pragma once

#include "tensor/tensor.h"

namespace moonlet::cpu {

// Writes `in`, which must broadcast to out's shape, over `out`, converting to its dtype. The two
// share no memory: ops that write copy such an input first. Both are on the CPU.
void copy_into(Tensor& out, const Tensor& in);

// memcpy and memset to 0 of any length, which look at the stop flag between blocks.
void copy_bytes(void* to, const void* from, int64_t bytes);
void zero_bytes(void* to, int64_t bytes);

}  // namespace moonlet::cpu
