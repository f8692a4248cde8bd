// autograd/formulas/linalg.cpp: the longer derivatives of products.
#include "autograd/formulas/linalg.h"
#include "autograd/uses_formulas_linalg.h"

namespace moonlet::formulas {

Tensor conjugate(const Tensor& x) { return is_complex(x.dtype()) ? moonlet::conj(x) : x; }

Tensor linear_grad_weight(const Tensor& g, const Tensor& x) {
  const int64_t out = g.size(-1), in = x.size(-1);
  int64_t rows = 1;
  for (int i = 0; i + 1 < x.dim(); ++i) rows *= x.size(i);
  const Tensor left = g.dim() == 2 ? g : reshape(g, {rows, out});
  const Tensor right = x.dim() == 2 ? x : reshape(x, {rows, in});
  return mm(transpose(left, 0, 1), conjugate(right));
}

}  // namespace moonlet::formulas
