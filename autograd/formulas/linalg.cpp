// autograd/formulas/linalg.cpp: the longer derivatives of products.
#include "autograd/formulas.h"

#include <cmath>

#include "autograd/forward_mode.h"
#include "autograd/tape.h"
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

namespace {

// What a distance's gradient g has for each difference of coordinates, by ops with derivatives.
Tensor by_difference(const Tensor& g, const Tensor& difference, const Tensor& distance, double p) {
  if (p == 0) return mul(difference, 0.0);
  const Tensor y = unsqueeze(distance, -1), gradient = unsqueeze(g, -1), side = sign(difference);
  if (p == 1) return mul(side, gradient);
  if (std::isinf(p)) return mul(mul(side, eq(abs(difference), y)), gradient);
  // Equal points have no direction.
  const Tensor same = eq(y, 0.0), length = masked_fill(y, same, 1.0);
  if (p == 2) return mul(difference, masked_fill(div(gradient, length), same, 0.0));
  const Tensor none = eq(difference, 0.0), size = masked_fill(abs(difference), none, 1.0);
  const Tensor each = masked_fill(mul(side, pow(size, p - 1)), none, 0.0);
  return mul(each, masked_fill(mul(gradient, pow(length, 1 - p)), same, 0.0));
}

}  // namespace

Tensor cdist_grad(const Tensor& g, const Tensor& x1, const Tensor& x2, const Tensor& y, double p) {
  if (!derivatives_wanted()) return cdist_grad_x1(g, x1, x2, y, p);
  const Tensor differences = sub(unsqueeze(x1, -2), unsqueeze(x2, -3));
  return sum(by_difference(g, differences, y, p), {differences.dim() - 2});
}

Tensor pdist_grad(const Tensor& g, const Tensor& x, const Tensor& y, double p) {
  if (!derivatives_wanted()) return pdist_grad_x(g, x, y, p);
  const Tensor pairs = triu_indices(x.size(0), x.size(0), 1, DType::Int64, x.device());
  const Tensor first = select(pairs, 0, 0), second = select(pairs, 0, 1);
  const Tensor each =
      by_difference(g, sub(index_select(x, 0, first), index_select(x, 0, second)), y, p);
  return index_add(index_add(mul(x, 0.0), 0, first, each), 0, second, neg(each));
}

}  // namespace moonlet::formulas
