// cuda/kernels/normalization/layer_norm.h: layer_norm and rms_norm of rows, and what their
// gradients share. Means that are undefined are 0: those of rms_norm. The statistics are float64.
#pragma once

#include "cuda/runtime/device.h"

namespace moonlet::cuda {

struct Rows {
  int64_t count, size;
};
// Those made of the last `dims` dimensions; none where they are empty.
Rows rows_of(const Tensor& x, int64_t dims);

// Weight and bias may be undefined, and of float32 beside 16-bit floats.
void normalise_rows(const Call& call, int64_t dims, const Tensor& x, const Tensor& weight,
                    const Tensor& bias, double eps, Tensor& y, const Tensor& mean, Tensor& rstd);

// What both gradients take.
struct RowGradients {
  Tensor grad, x, mean, rstd;
  RowGradients(const Tensor& g, const Tensor& input, const Tensor& m, const Tensor& r)
      : grad(contiguous(g)),
        x(contiguous(input)),
        mean(m.defined() ? converted(m, DType::Float64) : m),
        rstd(converted(r, DType::Float64)) {}
};
void row_gradients_of_x(const Call& call, int64_t dims, const RowGradients& in,
                        const Tensor& weight, Tensor& y);
void row_gradients_of_weight(const Call& call, int64_t dims, const RowGradients& in, Tensor& y);
// All of them in one pass, where the rows can be held. That of the bias is left out where it is
// undefined.
void row_gradients(const Call& call, int64_t dims, const RowGradients& in, const Tensor& weight,
                   Tensor& grad_x, Tensor& grad_weight, Tensor& grad_bias);

}  // namespace moonlet::cuda
