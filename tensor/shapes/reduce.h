// tensor/shapes/reduce.h: argument checks, result shapes and result dtypes of reductions, scans,
// sorts and searches; shared by all backends.
#pragma once

#include <optional>

#include "tensor/tensor.h"

namespace moonlet::shapes {

// `sizes` without the dims (keepdim: with size 1 there). `dims` is wrapped here.
Dims reduced_sizes(const Dims& sizes, const Dims& dims, bool keepdim, const char* op);
// The result of reducing `dims` of x.
Tensor reduce(const char* op, const Tensor& x, const Dims& dims, bool keepdim, DType dtype);
// The same for one dim, or all of them when it is absent.
Tensor reduce(const char* op, const Tensor& x, std::optional<int64_t> dim, bool keepdim,
              DType dtype);
// For reductions without an identity (amax): throws when there is nothing to reduce.
Tensor reduce_nonempty(const char* op, const Tensor& x, const Dims& dims, bool keepdim,
                       DType dtype);
Tensor reduce_nonempty(const char* op, const Tensor& x, std::optional<int64_t> dim, bool keepdim,
                       DType dtype);
// The accumulated dtype: the one asked for, else int64 for bool and integers, else x's.
DType sum_dtype(const Tensor& x, std::optional<DType> dtype);
// The same for averages; integers without a dtype are an error.
DType mean_dtype(const char* op, const Tensor& x, std::optional<DType> dtype);
// A result of x's shape for a scan along `dim`.
Tensor scan(const char* op, const Tensor& x, int64_t dim, DType dtype);
// The result of sort and argsort, and of topk with `k` entries along `dim`.
Tensor sorted(const char* op, const Tensor& x, int64_t dim, DType dtype);
Tensor topk(const char* op, const Tensor& x, int64_t k, int64_t dim, DType dtype);

}  // namespace moonlet::shapes
