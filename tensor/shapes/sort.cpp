// tensor/shapes/sort.cpp: argument checks and result shapes of sorting.
#include "tensor/shapes_sort.h"

namespace moonlet::shapes {

std::array<Result, 2> sort(const Tensor& x, int64_t dim, bool, bool) {
  wrap_dim(dim, x.dim(), "sort");
  const auto as_x = [&](DType dtype) {
    return laid_out_like(x, MemoryFormat::Preserve, {dtype, x.device()}, "sort");
  };
  return {as_x(x.dtype()), as_x(DType::Int64)};
}

std::array<Result, 2> topk(const Tensor& x, int64_t k, int64_t dim, bool, bool) {
  const int d = wrap_dim(dim, x.dim(), "topk");
  Dims sizes = x.sizes();
  const int64_t n = x.dim() ? sizes[d] : 1;
  check(k >= 0 && k <= n, "topk: k = ", k, " is not between 0 and ", n, ", the size of dimension ",
        d + 1, " of ", x.sizes());
  if (x.dim()) sizes[d] = k;
  check(x.dim() || k == 1, "topk: k = ", k, " of a tensor without dimensions");
  return {Result{sizes, options_of(x)}, Result{sizes, {DType::Int64, x.device()}}};
}

}  // namespace moonlet::shapes
