// autograd/formulas/common.cpp: what derivatives and composites of several families are made of.
#include "autograd/formulas/common.h"

#include "autograd/tape.h"
#include "autograd/uses_formulas_common.h"
#include "tensor/shapes/reduce.h"

namespace moonlet::formulas {

Tensor widened(const Tensor& x) {
  if (!x.defined() || !is_floating(x.dtype()) || size_of(x.dtype()) > 2) return x;
  return to(x, DType::Float32);
}

Operand conj(const Operand& x) {
  if (!x.is_tensor())
    return Operand(x.scalar().is_complex() ? Scalar(std::conj(x.scalar().to_complex()))
                                           : x.scalar());
  return is_complex(x.tensor().dtype()) ? Operand(moonlet::conj(x.tensor())) : x;
}

Tensor zero_grad(const Tensor& g) { return expand(zeros(Dims{}, options_of(g)), g.sizes()); }

Dims all_but_channels(int rank) {
  Dims out;
  for (int i = 0; i < rank; ++i)
    if (i != 1) out.push_back(i);
  return out;
}

Tensor channel_sum(const Tensor& x) { return sum(x, all_but_channels(x.dim()), false, {}); }

Tensor restore_dims(const Tensor& g, const Dims& sizes, const Dims& dims, bool keepdim) {
  if (keepdim || sizes.empty()) return g;
  return reshape(g, shapes::reduced_sizes(sizes, dims, true));
}

Tensor extreme_grad_x(const Tensor& g, const Tensor& x, const Tensor& y, const Dims& dims,
                      bool keepdim) {
  const Tensor best = restore_dims(y, x.sizes(), dims, keepdim);
  const Tensor chosen = eq(x, best);
  const Tensor share = div(restore_dims(g, x.sizes(), dims, keepdim), sum(chosen, dims, true));
  return mul(chosen, share);
}

Tensor placed_grad_x(const Tensor& g, const Tensor& indices, const Dims& sizes, int64_t dim) {
  Tensor out = zeros(sizes, Options{g.dtype(), g.device()});
  return scatter_(out, dim, indices, g);
}

Tensor added_grad_x(const Tensor& g, const Tensor& indices, const Dims& sizes, int64_t dim) {
  Tensor out = zeros(sizes, Options{g.dtype(), g.device()});
  return scatter_add_(out, dim, indices, g);
}

Tensor selected_grad_x(const Tensor& g, const Tensor& indices, const Dims& sizes, int64_t dim,
                       bool keepdim) {
  const Dims dims = sizes.empty() ? Dims{} : Dims{dim};
  return placed_grad_x(restore_dims(g, sizes, dims, keepdim),
                       restore_dims(indices, sizes, dims, keepdim), sizes, dim);
}

// The product of the elements before each one along dim.
static Tensor product_before(const Tensor& x, int64_t dim) {
  const int64_t n = x.size(static_cast<int>(dim));
  Dims first = x.sizes();
  first[static_cast<int>(dim)] = 1;
  const Tensor one = ones(first, options_of(x));
  return cumprod(cat({one, narrow(x, dim, 0, n - 1)}, dim), dim);
}

Tensor product_of_others(const Tensor& x, int dim) {
  const Tensor before = product_before(x, dim);
  return mul(before, flip(product_before(flip(x, Dims{dim}), dim), Dims{dim}));
}

Dims plane_of(const Dims& sizes) { return {sizes[sizes.size() - 2], sizes.back()}; }

}  // namespace moonlet::formulas
