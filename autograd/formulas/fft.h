// autograd/formulas/fft.h: the derivatives of Fourier transforms between real and complex numbers.
#pragma once

#include "tensor/core/tensor.h"

namespace moonlet::formulas {

// Of fft_r2c along dim, for x of that shape.
Tensor fft_r2c_grad_x(const Tensor& g, const Dims& sizes, int64_t dim, double scale);
// Of fft_c2r along dim.
Tensor fft_c2r_grad_x(const Tensor& g, int64_t dim, double scale);

}  // namespace moonlet::formulas
