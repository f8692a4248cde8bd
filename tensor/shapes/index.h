// tensor/shapes/index.h: argument checks and result shapes of gather, scatter and advanced
// indexing, and the geometry that their kernels share. Positions count from 1.
#pragma once

#include <vector>

#include "tensor/tensor.h"

namespace moonlet::shapes {

// Throws unless positions are int64 or int32 on x's device.
void check_positions(const char* op, const Tensor& x, const Tensor& index);
// Throws for position `at` that is not in 1..size (or -size..-1 where `negative`).
[[noreturn]] void bad_position(const char* op, int64_t at, int64_t size);

Tensor gather(const Tensor& x, int64_t dim, const Tensor& index);
void check_scatter(const char* op, const Tensor& x, int64_t dim, const Tensor& index,
                   const Tensor& source);
Tensor index_select(const Tensor& x, int64_t dim, const Tensor& index);
void check_index_add(const char* op, const Tensor& x, int64_t dim, const Tensor& index,
                     const Tensor& source);
Tensor embedding(const Tensor& weight, const Tensor& index);
Tensor embedding_backward(const Tensor& g, const Tensor& index, int64_t rows);

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
Tensor index(const Tensor& x, const std::vector<Tensor>& indices);

}  // namespace moonlet::shapes
