// tensor/shapes/scan.cpp: argument checks and results of running sums, products and extremes.
#include "tensor/shapes/reduce.h"
#include "tensor/shapes_scan.h"

namespace moonlet::shapes {

namespace {
Result scan(const char* op, const Tensor& x, int64_t dim, std::optional<DType> dtype) {
  wrap_dim(dim, x.dim(), op);
  return like(x, sum_dtype(x, dtype));
}
}  // namespace

Result cumsum(const Tensor& x, int64_t dim, std::optional<DType> dtype) {
  return scan("cumsum", x, dim, dtype);
}
Result cumprod(const Tensor& x, int64_t dim, std::optional<DType> dtype) {
  return scan("cumprod", x, dim, dtype);
}
Result logcumsumexp(const Tensor& x, int64_t dim) {
  return scan("logcumsumexp", x, dim, x.dtype());
}

std::array<Result, 2> cummax(const Tensor& x, int64_t dim) {
  return {scan("cummax", x, dim, x.dtype()), like(x, DType::Int64)};
}
std::array<Result, 2> cummin(const Tensor& x, int64_t dim) {
  return {scan("cummin", x, dim, x.dtype()), like(x, DType::Int64)};
}

}  // namespace moonlet::shapes
