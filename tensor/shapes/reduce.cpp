// tensor/shapes/reduce.cpp: argument checks and result shapes of reductions, scans and sorts.
#include "tensor/shapes/reduce.h"

namespace moonlet::shapes {

Dims reduced_sizes(const Dims& sizes, const Dims& dims, bool keepdim, const char* op) {
  const Dims wrapped = wrap_dims(dims, sizes.size(), op);
  Dims out;
  for (int i = 0; i < sizes.size(); ++i) {
    if (!wrapped.contains(i)) {
      out.push_back(sizes[i]);
    } else if (keepdim) {
      out.push_back(1);
    }
  }
  return out;
}

static Dims as_dims(const Tensor& x, std::optional<int64_t> dim, const char* op) {
  if (!dim || x.dim() == 0) {
    if (dim) wrap_dim(*dim, 0, op);
    return all_dims(x.dim());
  }
  return Dims{wrap_dim(*dim, x.dim(), op)};
}

Tensor reduce(const char* op, const Tensor& x, const Dims& dims, bool keepdim, DType dtype) {
  return empty(reduced_sizes(x.sizes(), dims, keepdim, op), Options{dtype, x.device()}, op);
}

Tensor reduce(const char* op, const Tensor& x, std::optional<int64_t> dim, bool keepdim,
              DType dtype) {
  return reduce(op, x, as_dims(x, dim, op), keepdim, dtype);
}

Tensor reduce_nonempty(const char* op, const Tensor& x, const Dims& dims, bool keepdim,
                       DType dtype) {
  Tensor y = reduce(op, x, dims, keepdim, dtype);
  check(y.numel() == 0 || x.numel() > 0, op,
        ": nothing to reduce: the reduced dimensions of shape ", x.sizes(), " hold no elements");
  return y;
}

Tensor reduce_nonempty(const char* op, const Tensor& x, std::optional<int64_t> dim, bool keepdim,
                       DType dtype) {
  return reduce_nonempty(op, x, as_dims(x, dim, op), keepdim, dtype);
}

DType sum_dtype(const Tensor& x, std::optional<DType> dtype) {
  if (dtype) return *dtype;
  return is_differentiable(x.dtype()) ? x.dtype() : DType::Int64;
}

DType mean_dtype(const char* op, const Tensor& x, std::optional<DType> dtype) {
  const DType out = dtype.value_or(x.dtype());
  check(is_differentiable(out), op, ": dtype ", out,
        " cannot hold an average; pass a floating dtype, such as {dtype = \"float32\"}");
  return out;
}

Tensor scan(const char* op, const Tensor& x, int64_t dim, DType dtype) {
  wrap_dim(dim, x.dim(), op);
  return empty(x.sizes(), Options{dtype, x.device()}, op);
}

Tensor sorted(const char* op, const Tensor& x, int64_t dim, DType dtype) {
  check(!is_complex(x.dtype()), op, ": complex numbers have no order");
  return scan(op, x, dim, dtype);
}

Tensor topk(const char* op, const Tensor& x, int64_t k, int64_t dim, DType dtype) {
  check(!is_complex(x.dtype()), op, ": complex numbers have no order");
  const int d = wrap_dim(dim, x.dim(), op);
  Dims sizes = x.sizes();
  const int64_t n = x.dim() ? sizes[d] : 1;
  check(k >= 0 && k <= n, op, ": k = ", k, " is not between 0 and ", n, ", the size of dimension ",
        d + 1, " of ", x.sizes());
  if (x.dim()) sizes[d] = k;
  check(x.dim() || k == 1, op, ": k = ", k, " of a tensor without dimensions");
  return empty(sizes, Options{dtype, x.device()}, op);
}

}  // namespace moonlet::shapes
