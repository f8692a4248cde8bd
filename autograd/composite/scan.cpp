// autograd/composite/scan.cpp: differences and integrals of samples along a dimension.
#include "autograd/formulas/common.h"
#include "autograd/uses_composite_scan.h"
#include "tensor/execution.h"

namespace moonlet {

using formulas::widened;

namespace {

// x without its last position along d, and without its first.
Tensor all_but_last(const Tensor& x, int d) { return narrow(x, d, 0, x.size(d) - 1); }
Tensor all_but_first(const Tensor& x, int d) { return narrow(x, d, 1, x.size(d) - 1); }

Tensor difference(const Tensor& x, int d) {
  if (x.dtype() == DType::Bool) return ne(all_but_first(x, d), all_but_last(x, d));
  return sub(all_but_first(x, d), all_but_last(x, d));
}

}  // namespace

Tensor diff_composite(const Tensor& x, int64_t n, int64_t dim, const Tensor& prepend,
                      const Tensor& append) {
  check(x.dim() > 0, "diff: x has no dimension");
  check(n >= 0, "diff: n is ", n, ", 0 or more is wanted");
  const int d = wrap_dim(dim, x.dim(), "diff");
  std::vector<Tensor> parts;
  for (const Tensor* part : {&prepend, &x, &append})
    if (part->defined()) parts.push_back(*part);
  Tensor y = parts.size() > 1 ? cat(parts, d) : x;
  if (n == 0) return y.is_same(x) ? clone(x) : y;
  if (n >= y.size(d)) return narrow(y, d, 0, 0);
  for (int64_t i = 0; i < n; ++i) y = difference(y, d);
  return y;
}

namespace {

// The heights of the trapezoids' two sides, added up.
Tensor sides(const Tensor& y, int d) {
  return add(all_but_first(widened(y), d), all_but_last(widened(y), d));
}

// The widths of the trapezoids, so that they broadcast to sides(y).
Tensor widths(const char* op, const Tensor& x, const Tensor& y, int d) {
  if (x.dim() != 1) {
    const int at = d - (y.dim() - x.dim());
    check(at >= 0 && x.size(at) == y.size(d), op, ": x has shape ", x.sizes(), ", one with ",
          y.size(d), " positions along dim ", d + 1, " of y, ", y.sizes(), ", is wanted");
    return difference(x, at);
  }
  check(x.size(0) == y.size(d), op, ": x has ", x.size(0), " positions, y of shape ", y.sizes(),
        " has ", y.size(d), " along dim ", d + 1);
  Dims shape = Dims::filled(y.dim() - d, 1);
  shape[0] = x.size(0) - 1;
  return reshape(difference(x, 0), shape);
}

// Twice the areas of the trapezoids along d.
Tensor twice_areas(const char* op, const Tensor& y, const Tensor& x, double dx, int d) {
  if (x.defined()) return mul(widths(op, widened(x), y, d), sides(y, d));
  const Tensor heights = sides(y, d);
  return dx == 1 ? heights : mul(heights, dx);
}

// The dtype of an integral: that of a product with the widths, halved.
DType integral_dtype(const Tensor& y, const Tensor& x) {
  const DType t = x.defined() ? promote(y.dtype(), x.dtype()) : y.dtype();
  return is_differentiable(t) ? t : execution.default_dtype;
}

}  // namespace

Tensor trapezoid_composite(const Tensor& y, const Tensor& x, double dx, int64_t dim) {
  check(y.dim() > 0, "trapezoid: y has no dimension");
  const int d = wrap_dim(dim, y.dim(), "trapezoid");
  const DType out = integral_dtype(y, x);
  if (y.size(d) == 0) return to(sum(y, {d}), out);
  return to(div(sum(twice_areas("trapezoid", y, x, dx, d), {d}), 2.0), out);
}

Tensor cumulative_trapezoid_composite(const Tensor& y, const Tensor& x, double dx, int64_t dim) {
  check(y.dim() > 0, "cumulative_trapezoid: y has no dimension");
  const int d = wrap_dim(dim, y.dim(), "cumulative_trapezoid");
  const DType out = integral_dtype(y, x);
  if (y.size(d) == 0) return to(clone(y), out);
  return to(div(cumsum(twice_areas("cumulative_trapezoid", y, x, dx, d), d), 2.0), out);
}

}  // namespace moonlet
