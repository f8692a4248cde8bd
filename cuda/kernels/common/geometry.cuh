// cuda/kernels/common/geometry.cuh: shapes and strides as kernel arguments, and the way from a
// running number to an element's position.
#pragma once

#include <utility>

#include "cuda/kernels/common/divide.cuh"
#include "cuda/kernels/common/elements.cuh"
#include "tensor/core/dims.h"
#include "tensor/core/geometry.h"
#include "tensor/core/tensor.h"

namespace moonlet::cuda {

// Sizes and the strides (in elements) of up to N tensors over them; the last dimension is the
// innermost.
template <int N>
struct Geometry {
  int rank = 0;
  bool narrow = false;  // every element's number can be divided by `by`
  Divider by[kMaxDims];
  int64_t sizes[kMaxDims];
  int64_t strides[N][kMaxDims];
};

template <int N>
struct Offsets {
  int64_t at[N];
};

// Where the element number `i`, in row order, lies in each tensor.
template <int N>
__device__ __forceinline__ Offsets<N> offsets(const Geometry<N>& g, int64_t i) {
  Offsets<N> out;
  for (int t = 0; t < N; ++t) out.at[t] = 0;
  if (g.narrow) {
    auto left = static_cast<uint32_t>(i);
    for (int d = g.rank - 1; d >= 0; --d) {
      const uint32_t quotient = d == 0 ? 0 : g.by[d].quotient(left);
      const uint32_t rest = left - quotient * g.by[d].divisor;
      left = quotient;
      for (int t = 0; t < N; ++t) out.at[t] += rest * g.strides[t][d];
    }
    return out;
  }
  for (int d = g.rank - 1; d >= 0; --d) {
    const int64_t rest = i % g.sizes[d];
    i /= g.sizes[d];
    for (int t = 0; t < N; ++t) out.at[t] += rest * g.strides[t][d];
  }
  return out;
}

// Drops dimensions of size 1 and joins those that lie in a row for all tensors; with the dividers.
template <int N>
Geometry<N> collapse(const Geometry<N>& g) {
  Geometry<N> out = g;
  out.rank = collapse_dims<Innermost::Last>(g.rank, out.sizes, [&](auto&& f) {
    for (int t = 0; t < N; ++t) f(out.strides[t]);
  });
  int64_t count = 1;
  for (int d = 0; d < out.rank; ++d) count *= out.sizes[d];
  out.narrow = count > 0 && count < kDividerLimit;
  for (int d = 0; d < out.rank && out.narrow; ++d) out.by[d] = Divider(out.sizes[d]);
  return out;
}

template <class... Strides>
auto geometry(const Dims& sizes, const Strides&... strides) {
  Geometry<sizeof...(Strides)> out;
  out.rank = sizes.size();
  for (int d = 0; d < out.rank; ++d) out.sizes[d] = sizes[d];
  int t = 0;
  ((std::copy(strides.begin(), strides.end(), out.strides[t]), ++t), ...);
  return collapse(out);
}

// The sizes of a contiguous tensor before, along and after one dimension.
struct DimSplit {
  int64_t outer = 1, size = 1, inner = 1;
};
inline DimSplit split_at(const Dims& sizes, int64_t dim) {
  DimSplit out;
  for (int d = 0; d < sizes.size(); ++d) {
    if (d < dim)
      out.outer *= sizes[d];
    else if (d == dim)
      out.size = sizes[d];
    else
      out.inner *= sizes[d];
  }
  return out;
}

inline Array array(const Tensor& x) { return {x.raw(), x.dtype()}; }
inline OptionalArray optional(const Tensor& x) {
  return {x.defined() ? array(x) : Array{nullptr, DType::Float32}, x.defined()};
}

// `for (MOONLET_EACH(i, count))`: the numbers below count, shared among the grid's threads.
#define MOONLET_EACH(i, count)                                             \
  int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; \
  i < (count);                                                             \
  i += static_cast<int64_t>(gridDim.x) * blockDim.x

}  // namespace moonlet::cuda
