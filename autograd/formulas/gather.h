// autograd/formulas/gather.h: the longer derivatives of what picks rows or elements.
#pragma once

#include <string_view>
#include <tuple>

#include "autograd/recording.h"
#include "tensor/core/tensor.h"

namespace moonlet::formulas {

// The gradient of embedding's weight, of shape `sizes`: nothing where it is sparse and the rows
// were taken.
Tensor embedding_grad(const RowsTaker& taker, const Tensor& g, const Tensor& index,
                      const Dims& sizes, int64_t padding_idx, bool scale_grad_by_freq, bool sparse);
Tensor embedding_grad_weight_grad_grad(const Tensor& g, const Tensor& index, int64_t padding_idx);
// g, where `wanted` divided by how often each row's position comes in `index`.
Tensor by_frequency(const Tensor& g, const Tensor& index, int64_t rows, bool wanted);

// Zeros of shape `sizes` with g added at the positions.
Tensor index_select_grad_x(const Tensor& g, int64_t dim, const Tensor& index, const Dims& sizes);

// What scatter and scatter_add took from src, in src's shape: what is behind `index` gave nothing.
Tensor scatter_grad_src(const Tensor& g, int64_t dim, const Tensor& index, const Dims& src_size);
// The gradients of x and src, where y is what scatter_fold made of them.
std::tuple<Tensor, Tensor> scatter_fold_grads(const Tensor& g, const Tensor& x, int64_t dim,
                                              const Tensor& index, const Tensor& src,
                                              std::string_view reduce, const Tensor& y);
// The gradients of x and source, where y is what index_reduce made of them.
std::tuple<Tensor, Tensor> index_reduce_grads(const Tensor& g, const Tensor& x, int64_t dim,
                                              const Tensor& index, const Tensor& source,
                                              std::string_view reduce, bool include_self,
                                              const Tensor& y);

}  // namespace moonlet::formulas
