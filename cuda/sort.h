// cuda/sort.h: the stable sort of keys that sorting, topk and ordered scatters share.
#pragma once

#include "cuda/device.h"

namespace moonlet::cuda {

// Sorts each of `rows` rows of `n` unsigned 64-bit keys upwards; `order` gets the place (from 0)
// that each came from. Both int64 tensors of (rows, n); they may be replaced by others.
void sort_keys(const Call& call, int64_t rows, int64_t n, Tensor& keys, Tensor& order);

}  // namespace moonlet::cuda
