// tensor/shapes/nn.h: argument checks and result shapes of convolution, pooling, normalisation and
// losses. Each function throws Error naming the op and the shapes when its arguments do not fit.
#pragma once

#include "tensor/shapes/linalg.h"
#include "tensor/tensor.h"

namespace moonlet::shapes {

// Whether images (n, c, h, w) lie channels last and not in row-major order.
bool lies_channels_last(const Tensor& images);

// A new result of those sizes in x's options: channels last when `x` or `filter` lies so and not in
// row-major order, else row-major.
Tensor images(const char* op, const Dims& sizes, const Tensor& x, const Tensor& filter = {});

// a's sizes, which b must share, as its dtype.
Dims same(const char* op, const Tensor& a, const Tensor& b);

// x (n, c, h, w), weight (o, c / groups, kh, kw), bias (o) or undefined: (n, o, h2, w2)
Dims conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias, const Dims& stride,
            const Dims& padding, const Dims& dilation, int64_t groups);
Dims conv2d_input_grad(const Tensor& grad, const Tensor& weight, const Dims& size,
                       const Dims& stride, const Dims& padding, const Dims& dilation,
                       int64_t groups);
Dims conv2d_weight_grad(const Tensor& grad, const Tensor& x, const Dims& size, const Dims& stride,
                        const Dims& padding, const Dims& dilation, int64_t groups);

// x (..., h, w) with 3 or 4 dimensions: (..., h2, w2)
Dims max_pool2d(const Tensor& x, const Dims& kernel, const Dims& stride, const Dims& padding,
                const Dims& dilation, bool ceil_mode);
Dims max_pool2d_backward(const Tensor& grad, const Tensor& indices, const Dims& size);
Dims plane_gather(const Tensor& x, const Tensor& indices);
Dims avg_pool2d(const Tensor& x, const Dims& kernel, const Dims& stride, const Dims& padding,
                bool ceil_mode);
Dims avg_pool2d_backward(const Tensor& grad, const Dims& size, const Dims& kernel,
                         const Dims& stride, const Dims& padding, bool ceil_mode);
Dims adaptive_avg_pool2d(const Tensor& x, const Dims& output_size);
Dims adaptive_avg_pool2d_backward(const Tensor& grad, const Dims& size);

Dims layer_norm(const Tensor& x, const Dims& normalized_shape, const Tensor& weight,
                const Tensor& bias);
// x's sizes with the last `dims` of them 1.
Dims layer_norm_stats(const Tensor& x, int64_t dims);
// The weight's shape, after checking the arguments of a gradient of layer_norm.
Dims layer_norm_grad(const char* op, const Tensor& grad, const Tensor& x, const Tensor& mean,
                     const Tensor& rstd, const Tensor& weight, int64_t dims);

Dims batch_norm(const Tensor& x, const Tensor& weight, const Tensor& bias,
                const Tensor& running_mean, const Tensor& running_var);
// (1, c, 1, ...)
Dims batch_norm_stats(const Tensor& x);
// The weight's shape, after checking the arguments of a gradient of batch_norm.
Dims batch_norm_grad(const char* op, const Tensor& grad, const Tensor& x, const Tensor& mean,
                     const Tensor& rstd, const Tensor& weight);

// log_probs (c) or (n, c, ...), target () or (n, ...), weight (c) or undefined. `reduction` is 0
// (none), 1 (mean) or 2 (sum).
Dims nll_loss(const Tensor& log_probs, const Tensor& target, const Tensor& weight,
              int64_t reduction);
Dims nll_loss_backward(const Tensor& grad, const Tensor& target, const Tensor& weight,
                       const Dims& size, int64_t reduction);

}  // namespace moonlet::shapes
