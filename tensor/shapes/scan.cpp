// tensor/shapes/scan.cpp: argument checks and results of running sums, products and extremes.
#include "tensor/shapes/reduce.h"
#include "tensor/shapes_scan.h"

namespace moonlet::shapes {

namespace {
Result scan(const Tensor& x, std::optional<DType> dtype) { return like(x, sum_dtype(x, dtype)); }
}  // namespace

Result cumsum(const Tensor& x, int64_t, std::optional<DType> dtype) { return scan(x, dtype); }
Result cumprod(const Tensor& x, int64_t, std::optional<DType> dtype) { return scan(x, dtype); }
Result logcumsumexp(const Tensor& x, int64_t) { return scan(x, x.dtype()); }

std::array<Result, 2> cummax(const Tensor& x, int64_t) {
  return {scan(x, x.dtype()), like(x, DType::Int64)};
}
std::array<Result, 2> cummin(const Tensor& x, int64_t) {
  return {scan(x, x.dtype()), like(x, DType::Int64)};
}

}  // namespace moonlet::shapes
