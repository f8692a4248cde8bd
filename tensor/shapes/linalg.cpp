// tensor/shapes/linalg.cpp: argument checks and result shapes of the products.
#include "tensor/shapes_linalg.h"

namespace moonlet::shapes {

namespace {
void check_rank(const char* op, const char* argument, const Tensor& t, int wanted) {
  check(t.dim() == wanted, op, ": ", argument, " has shape ", t.sizes(), ", ", wanted,
        wanted == 1 ? " dimension is expected" : " dimensions are expected");
}

Dims product(const char* op, const Tensor& a, const Tensor& b) {
  check_rank(op, "a", a, 2);
  check_rank(op, "b", b, 2);
  check(a.size(1) == b.size(0), op, ": inner sizes differ: ", a.sizes(), " x ", b.sizes());
  return {a.size(0), b.size(1)};
}

Dims batch_product(const char* op, const Tensor& a, const Tensor& b) {
  check_rank(op, "a", a, 3);
  check_rank(op, "b", b, 3);
  check(a.size(0) == b.size(0), op, ": batch sizes differ: ", a.sizes(), " x ", b.sizes());
  check(a.size(2) == b.size(1), op, ": inner sizes differ: ", a.sizes(), " x ", b.sizes());
  return {a.size(0), a.size(1), b.size(2)};
}

Dims with_input(const char* op, const Tensor& input, const Dims& sizes) {
  check(can_expand(input.sizes(), sizes), op, ": input has shape ", input.sizes(),
        ", which does not broadcast to the product's ", sizes);
  return sizes;
}
}  // namespace

Result mm(const Tensor& a, const Tensor& b) { return {product("mm", a, b), options_of(a)}; }

Result bmm(const Tensor& a, const Tensor& b) { return {batch_product("bmm", a, b), options_of(a)}; }

Result addmm(const Tensor& input, const Tensor& a, const Tensor& b, Scalar, Scalar) {
  return {with_input("addmm", input, product("addmm", a, b)), options_of(a)};
}

Result baddbmm(const Tensor& input, const Tensor& a, const Tensor& b, Scalar, Scalar) {
  return {with_input("baddbmm", input, batch_product("baddbmm", a, b)), options_of(a)};
}

Result mv(const Tensor& a, const Tensor& x) {
  check_rank("mv", "a", a, 2);
  check_rank("mv", "x", x, 1);
  check(a.size(1) == x.size(0), "mv: inner sizes differ: ", a.sizes(), " x ", x.sizes());
  return {{a.size(0)}, options_of(a)};
}

Result dot(const Tensor& a, const Tensor& b) {
  check_rank("dot", "a", a, 1);
  check_rank("dot", "b", b, 1);
  check(a.size(0) == b.size(0), "dot: sizes differ: ", a.sizes(), " x ", b.sizes());
  return {{}, options_of(a)};
}

Result outer(const Tensor& a, const Tensor& b) {
  check_rank("outer", "a", a, 1);
  check_rank("outer", "b", b, 1);
  return {{a.size(0), b.size(0)}, {promote(a.dtype(), b.dtype(), "outer"), a.device()}};
}

namespace {
// The leading sizes of x (..., n, d) and the rows of it and another.
Dims distance_sizes(const char* op, const Tensor& x1, const Tensor& x2, double p) {
  bool fits = x1.dim() >= 2 && x1.dim() == x2.dim() && x1.size(-1) == x2.size(-1);
  for (int d = 0; fits && d + 2 < x1.dim(); ++d) fits = x1.size(d) == x2.size(d);
  check(fits, op, ": shapes ", x1.sizes(), " and ", x2.sizes(),
        ", (..., n, d) and (..., m, d) are expected");
  check(p >= 0, op, ": p is ", p, ", at least 0 is expected");
  Dims sizes = x1.sizes();
  sizes.back() = x2.size(-2);
  return sizes;
}

Dims pair_sizes(const char* op, const Tensor& x, double p) {
  check_rank(op, "x", x, 2);
  check(p >= 0, op, ": p is ", p, ", at least 0 is expected");
  const int64_t n = x.size(0);
  return {n < 2 ? 0 : checked_mul(n - (n % 2 == 0 ? 1 : 0), n - (n % 2 == 0 ? 0 : 1), op) / 2};
}
}  // namespace

Result native_cdist(const Tensor& x1, const Tensor& x2, double p) {
  return {distance_sizes("cdist", x1, x2, p), options_of(x1)};
}

Result cdist_grad_x1(const Tensor& grad, const Tensor& x1, const Tensor& x2, const Tensor& distance,
                     double p) {
  const char* op = "cdist_grad_x1";
  const Dims sizes = distance_sizes(op, x1, x2, p);
  check_shape(op, "grad", grad.sizes(), sizes);
  check_shape(op, "distance", distance.sizes(), sizes);
  return {x1.sizes(), options_of(x1)};
}

Result native_pdist(const Tensor& x, double p) {
  return {pair_sizes("pdist", x, p), options_of(x)};
}

Result pdist_grad_x(const Tensor& grad, const Tensor& x, const Tensor& distance, double p) {
  const char* op = "pdist_grad_x";
  const Dims sizes = pair_sizes(op, x, p);
  check_shape(op, "grad", grad.sizes(), sizes);
  check_shape(op, "distance", distance.sizes(), sizes);
  return {x.sizes(), options_of(x)};
}

Result linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  check_rank("linear", "weight", weight, 2);
  check(x.dim() >= 1 && x.size(-1) == weight.size(1), "linear: x has shape ", x.sizes(),
        ", the weight ", weight.sizes(), " wants (..., ", weight.size(1), ")");
  if (bias.defined()) {
    check(bias.dim() == 1 && bias.size(0) == weight.size(0), "linear: bias has shape ",
          bias.sizes(), ", (", weight.size(0), ",) is expected");
  }
  Dims sizes = x.sizes();
  sizes.back() = weight.size(0);
  return {sizes, options_of(x)};
}

Result linalg_cross(const Tensor& x, const Tensor& other, int64_t dim) {
  check(x.dim() == other.dim(), "linalg.cross: shapes ", x.sizes(), " and ", other.sizes(),
        ", as many dimensions are expected");
  const int d = static_cast<int>(dim);
  check(x.dim() > 0 && x.size(d) == 3 && other.size(d) == 3, "linalg.cross: size 3 along dim ",
        dim + 1, " is expected, got shapes ", x.sizes(), " and ", other.sizes());
  return {broadcast(x.sizes(), other.sizes(), "linalg.cross"), options_of(x)};
}

}  // namespace moonlet::shapes
