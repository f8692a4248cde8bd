// autograd/formulas/index.cpp: the longer derivatives of indexing by tensors.
#include "autograd/formulas.h"

#include "autograd/forward_mode.h"
#include "autograd/uses_formulas_index.h"

namespace moonlet::formulas {

Tensor index_grad_x(const Tensor& g, const std::vector<Tensor>& indices, const Dims& sizes) {
  Tensor sums = zeros(sizes, options_of(g));
  return derivatives_wanted() ? index_put(sums, indices, g, true)
                              : index_put_(sums, indices, g, true);
}

Tensor index_put_grad_x(const Tensor& g, const std::vector<Tensor>& indices, bool accumulate) {
  if (accumulate) return g;
  return index_put(g, indices, zeros(Dims{}, Options{g.dtype(), g.device()}), false);
}

}  // namespace moonlet::formulas
