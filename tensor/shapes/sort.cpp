// tensor/shapes/sort.cpp: argument checks and result shapes of sorting and of medians.
#include "tensor/shapes_sort.h"

#include "tensor/shapes/reduce.h"

namespace moonlet::shapes {

std::array<Result, 2> sort(const Tensor& x, int64_t, bool, bool) {
  const auto as_x = [&](DType dtype) {
    return laid_out_like(x, MemoryFormat::Preserve, {dtype, x.device()}, "sort");
  };
  return {as_x(x.dtype()), as_x(DType::Int64)};
}

std::array<Result, 2> topk(const Tensor& x, int64_t k, int64_t dim, bool, bool) {
  const int d = wrapped(dim, x.dim());
  Dims sizes = x.sizes();
  const int64_t n = x.dim() ? sizes[d] : 1;
  check(k >= 0 && k <= n, "topk: k = ", k, " is not between 0 and ", n, ", the size of dimension ",
        d + 1, " of ", x.sizes());
  if (x.dim()) sizes[d] = k;
  check(x.dim() || k == 1, "topk: k = ", k, " of a tensor without dimensions");
  return {Result{sizes, options_of(x)}, Result{sizes, {DType::Int64, x.device()}}};
}

// One element along dim and its position, of rows that hold at least one.
static std::array<Result, 2> selected(const char* op, const Tensor& x, int64_t dim, bool keepdim) {
  const Dims sizes = reduced_sizes(x.sizes(), Dims{dim}, keepdim);
  check(x.numel() > 0 || numel_of(sizes, op) == 0, op, ": dim ", dim + 1, " of shape ", x.sizes(),
        " holds no elements");
  return {Result{sizes, options_of(x)}, Result{sizes, {DType::Int64, x.device()}}};
}

std::array<Result, 2> kthvalue(const Tensor& x, int64_t k, int64_t dim, bool keepdim) {
  const int64_t n = x.dim() ? x.size(wrapped(dim, x.dim())) : 1;
  check(k >= 1 && k <= n, "kthvalue: k = ", k, " is not between 1 and ", n, ", the size of dim ",
        dim + 1, " of ", x.sizes());
  return selected("kthvalue", x, dim, keepdim);
}

static Result median_of_all(const char* op, const Tensor& x) {
  check(x.numel() > 0 || is_floating(x.dtype()), op, ": x has no elements");
  return {{}, options_of(x)};
}
Result median(const Tensor& x) { return median_of_all("median", x); }
Result nanmedian(const Tensor& x) { return median_of_all("nanmedian", x); }
std::array<Result, 2> median_dim(const Tensor& x, int64_t dim, bool keepdim) {
  return selected("median", x, dim, keepdim);
}
std::array<Result, 2> nanmedian_dim(const Tensor& x, int64_t dim, bool keepdim) {
  return selected("nanmedian", x, dim, keepdim);
}

}  // namespace moonlet::shapes
