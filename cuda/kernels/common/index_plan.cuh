// cuda/kernels/common/index_plan.cuh: advanced indexing in kernels: where each element of the
// result lies.
#pragma once

#include <numeric>
#include <vector>

#include "cuda/kernels/common/faults.cuh"
#include "cuda/kernels/common/geometry.cuh"
#include "cuda/runtime/device.h"
#include "tensor/shapes/index.h"

namespace moonlet::cuda {

// Element i of the result lies at base.at[0] plus, per index tensor, its position times a stride;
// base.at[1] is the element's number within the index tensors' common shape.
struct IndexGrid {
  Geometry<2> base;
  int tensors = 0;
  Positions positions[kMaxDims];
  int64_t strides[kMaxDims];
};

// -1 where a position is none.
__device__ inline int64_t index_offset(const IndexGrid& g, int64_t i) {
  const Offsets<2> o = offsets(g.base, i);
  int64_t at = o.at[0];
  for (int t = 0; t < g.tensors; ++t) {
    const int64_t position = g.positions[t].position(o.at[1]);
    if (position < 0) return -1;
    at += position * g.strides[t];
  }
  return at;
}

// How many elements always lie side by side, in x and in the result.
inline int64_t run_of(const IndexGrid& g) {
  const int last = g.base.rank - 1;
  if (last < 0 || g.base.strides[0][last] != 1 || g.base.strides[1][last] != 0) return 1;
  int64_t run = g.base.sizes[last];
  for (int d = 0; d < last; ++d) run = std::gcd(run, g.base.strides[0][d]);
  for (int t = 0; t < g.tensors; ++t) run = std::gcd(run, g.strides[t]);
  return run;
}

// The same of runs of so many elements, as run_of has them, in place of elements.
inline IndexGrid by_runs(IndexGrid g, int64_t run) {
  if (run == 1) return g;
  const int last = g.base.rank - 1;
  g.base.sizes[last] /= run;
  for (int d = 0; d < last; ++d) g.base.strides[0][d] /= run;
  for (int t = 0; t < g.tensors; ++t) g.strides[t] /= run;
  g.base = collapse(g.base);
  return g;
}

// The plan of x[indices] with its positions laid out for kernels.
struct IndexedTensor {
  shapes::IndexPlan plan;
  std::vector<Tensor> positions;  // keeps what the grid points to
  IndexGrid grid;
  int64_t count = 1;

  // Reports what is wrong with the positions where there is nothing to read or write.
  void check_only(const Call& call) const {
    for (int t = 0; t < grid.tensors; ++t)
      check_positions(call, grid.positions[t], positions[static_cast<size_t>(t)].numel());
  }

  IndexedTensor(const char* op, const Tensor& x, const std::vector<Tensor>& indices)
      : plan(shapes::plan_index(op, x, indices)) {
    for (int64_t size : plan.result) count *= size;
    Dims number = Dims::filled(plan.result.size(), 0);
    int64_t step = 1;
    for (int d = plan.index_sizes.size() - 1; d >= 0; --d) {
      number[plan.index_at + d] = step;
      step *= plan.index_sizes[d];
    }
    grid.base = geometry(plan.result, plan.base_strides, number);
    grid.tensors = static_cast<int>(plan.indices.size());
    for (int t = 0; t < grid.tensors; ++t) {
      Tensor wide = empty_plain(plan.index_sizes, {DType::Int64, x.device()}, op);
      copy_back(wide, plan.indices[static_cast<size_t>(t)]);
      grid.positions[t] = positions_in(op, wide, plan.indexed_sizes[t], true);
      grid.strides[t] = plan.indexed_strides[t];
      positions.push_back(wide);
    }
  }
};

}  // namespace moonlet::cuda
