// tensor/shapes/index.h: the geometry of advanced indexing, which the shape functions and the
// kernels of all devices share. Positions count from 1.
#pragma once

#include <string_view>
#include <vector>

#include "tensor/core/tensor.h"

namespace moonlet::shapes {

// Throws for position `at` that is not in 1..size (or -size..-1 where `negative`).
[[noreturn]] void fail_position(const char* op, int64_t at, int64_t size);

// Advanced indexing: which elements of x the results come from. The result's dims are grouped as
// (before, indexed, after) when the index tensors stand side by side, else (indexed, the rest).
struct IndexPlan {
  Dims result;                  // sizes of the result
  Dims index_sizes;             // the index tensors' common shape
  int index_at = 0;             // where index_sizes stands in result
  Dims base_strides;            // x's stride per dim of result, 0 for the indexed ones
  std::vector<Tensor> indices;  // the defined ones
  Dims indexed_sizes;           // x's size and stride for each of them
  Dims indexed_strides;
};
// Throws naming `op` when the indices are too many, not integers or do not broadcast.
IndexPlan plan_index(const char* op, const Tensor& x, const std::vector<Tensor>& indices);

// Whether searchsorted puts values behind equal ones. Throws for another side than "left" or
// "right".
bool searches_right(bool right, const std::optional<std::string>& side);

}  // namespace moonlet::shapes
