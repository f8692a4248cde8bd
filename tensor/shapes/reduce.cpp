// tensor/shapes/reduce.cpp: argument checks and result shapes of reductions.
#include "tensor/shapes/reduce.h"

#include <cmath>

#include "tensor/runtime/execution.h"
#include "tensor/shapes_reduce.h"

namespace moonlet::shapes {

DType sum_dtype(const Tensor& x, std::optional<DType> dtype) {
  if (dtype) return *dtype;
  return is_differentiable(x.dtype()) ? x.dtype() : DType::Int64;
}

Dims reduced_sizes(const Dims& sizes, const Dims& dims, bool keepdim) {
  Dims out;
  for (int i = 0; i < sizes.size(); ++i) {
    if (!dims.contains(i)) {
      out.push_back(sizes[i]);
    } else if (keepdim) {
      out.push_back(1);
    }
  }
  return out;
}

namespace {

// One dim as a list; none, or a tensor without dimensions, stands for all of them.
Dims as_dims(const Tensor& x, std::optional<int64_t> dim) {
  return dim && x.dim() > 0 ? Dims{*dim} : all_dims(x.dim());
}

Result reduced(const Tensor& x, const Dims& dims, bool keepdim, DType dtype) {
  return {reduced_sizes(x.sizes(), dims, keepdim), {dtype, x.device()}};
}

// For reductions without an identity (amax): throws when there is nothing to reduce.
Result reduced_nonempty(const char* op, const Tensor& x, const Dims& dims, bool keepdim,
                        DType dtype) {
  const Result y = reduced(x, dims, keepdim, dtype);
  check(x.numel() > 0 || numel_of(y.sizes, op) == 0, op,
        ": nothing to reduce: the reduced dimensions of shape ", x.sizes(), " hold no elements");
  return y;
}

std::array<Result, 2> extreme_along(const char* op, const Tensor& x, int64_t dim, bool keepdim) {
  const Result y = reduced_nonempty(op, x, as_dims(x, dim), keepdim, x.dtype());
  return {y, Result{y.sizes, {DType::Int64, x.device()}}};
}

Result position(const char* op, const Tensor& x, std::optional<int64_t> dim, bool keepdim) {
  return reduced_nonempty(op, x, as_dims(x, dim), keepdim, DType::Int64);
}

}  // namespace

Result sum(const Tensor& x, const Dims& dim, bool keepdim, std::optional<DType> dtype) {
  return reduced(x, dim, keepdim, sum_dtype(x, dtype));
}

Result nansum(const Tensor& x, const Dims& dim, bool keepdim, std::optional<DType> dtype) {
  const DType out = sum_dtype(x, dtype);
  check(!is_complex(out), "nansum: dtype is ", out, ", a real one is expected");
  return reduced(x, dim, keepdim, out);
}

Result mean(const Tensor& x, const Dims& dim, bool keepdim, std::optional<DType> dtype) {
  const DType out = dtype.value_or(x.dtype());
  check(is_differentiable(out), "mean: dtype ", out,
        " cannot hold an average; pass a floating dtype, such as {dtype = \"float32\"}");
  return reduced(x, dim, keepdim, out);
}

Result prod(const Tensor& x, std::optional<int64_t> dim, bool keepdim, std::optional<DType> dtype) {
  return reduced(x, as_dims(x, dim), keepdim, sum_dtype(x, dtype));
}

Result amax(const Tensor& x, const Dims& dim, bool keepdim) {
  return reduced_nonempty("amax", x, dim, keepdim, x.dtype());
}
Result amin(const Tensor& x, const Dims& dim, bool keepdim) {
  return reduced_nonempty("amin", x, dim, keepdim, x.dtype());
}

std::array<Result, 2> aminmax(const Tensor& x, const Dims& dim, bool keepdim) {
  const Result y = reduced_nonempty("aminmax", x, dim, keepdim, x.dtype());
  return {y, y};
}

std::array<Result, 2> max_dim(const Tensor& x, int64_t dim, bool keepdim) {
  return extreme_along("max", x, dim, keepdim);
}
std::array<Result, 2> min_dim(const Tensor& x, int64_t dim, bool keepdim) {
  return extreme_along("min", x, dim, keepdim);
}

Result argmax(const Tensor& x, std::optional<int64_t> dim, bool keepdim) {
  return position("argmax", x, dim, keepdim);
}
Result argmin(const Tensor& x, std::optional<int64_t> dim, bool keepdim) {
  return position("argmin", x, dim, keepdim);
}

// A truth value is a bool, of uint8 a uint8.
static Result truth(const Tensor& x, const Dims& dims, bool keepdim) {
  return reduced(x, dims, keepdim, x.dtype() == DType::UInt8 ? DType::UInt8 : DType::Bool);
}
Result any(const Tensor& x, const Dims& dim, bool keepdim) { return truth(x, dim, keepdim); }
Result all(const Tensor& x, const Dims& dim, bool keepdim) { return truth(x, dim, keepdim); }
Result count_nonzero(const Tensor& x, const Dims& dim) {
  return reduced(x, dim, false, DType::Int64);
}

Result var(const Tensor& x, const Dims& dim, double, bool keepdim) {
  return reduced(x, dim, keepdim, real_of(x.dtype()));
}

Result std(const Tensor& x, const Dims& dim, double, bool keepdim) {
  return reduced(x, dim, keepdim, real_of(x.dtype()));
}

Result norm(const Tensor& x, double p, const Dims& dim, bool keepdim, std::optional<DType> dtype) {
  const DType computed = dtype.value_or(x.dtype());
  check(is_differentiable(computed) && is_complex(computed) == is_complex(x.dtype()),
        "norm: dtype is ", computed, ", ", is_complex(x.dtype()) ? "a complex" : "a floating",
        " one is expected for x of dtype ", x.dtype());
  // The largest of nothing, or the reciprocal of 0.
  if (p < 0 || std::isinf(p)) return reduced_nonempty("norm", x, dim, keepdim, real_of(computed));
  return reduced(x, dim, keepdim, real_of(computed));
}

Result logsumexp(const Tensor& x, const Dims& dim, bool keepdim) {
  const DType out = is_differentiable(x.dtype()) ? x.dtype() : execution.default_dtype;
  return reduced(x, dim, keepdim, out);
}

}  // namespace moonlet::shapes
