// tensor/shapes/scan.cpp: argument checks and results of running sums and products.
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

}  // namespace moonlet::shapes
