// cuda/kernels/layer_norm.h: layer_norm of rows whose tensors are of one dtype. Each function is
// false, with nothing done, where they are not. All tensors are contiguous, the statistics float64.
#pragma once

#include "cuda/runtime/device.h"

namespace moonlet::cuda {

// At least one row, of at least one element.
struct Rows {
  int64_t count, size;
};

// Weight and bias may be undefined.
bool normalise_rows(const Call& call, const Rows& rows, const Tensor& x, const Tensor& weight,
                    const Tensor& bias, double eps, Tensor& y, Tensor& mean, Tensor& rstd);

// What both gradients take.
struct RowGradients {
  Tensor grad, x, mean, rstd;
  RowGradients(const Tensor& g, const Tensor& input, const Tensor& m, const Tensor& r)
      : grad(contiguous(g)),
        x(contiguous(input)),
        mean(converted(m, DType::Float64)),
        rstd(converted(r, DType::Float64)) {}
};
bool row_gradients_of_x(const Call& call, const Rows& rows, const RowGradients& in,
                        const Tensor& weight, Tensor& y);
bool row_gradients_of_weight(const Call& call, const Rows& rows, const RowGradients& in, Tensor& y);

}  // namespace moonlet::cuda
