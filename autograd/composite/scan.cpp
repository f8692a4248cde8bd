// autograd/composite/scan.cpp: differences and integrals of samples along a dimension.
#include "autograd/formulas/common.h"
#include "autograd/uses_composite_scan.h"
#include "tensor/runtime/execution.h"

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
  check(n >= 0, "diff: n is ", n, ", 0 or more is expected");
  const int d = wrap_dim(dim, x.dim(), "diff");
  if (n == 0) return clone(x);
  std::vector<Tensor> parts;
  for (const Tensor* part : {&prepend, &x, &append})
    if (part->defined()) parts.push_back(*part);
  Tensor y = parts.size() > 1 ? cat(parts, d) : x;
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
          y.size(d), " positions along dim ", d + 1, " of y, ", y.sizes(), ", is expected");
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
  check(y.dim() > 0 && y.dtype() != DType::Bool, "trapezoid: y has shape ", y.sizes(),
        " and dtype ", y.dtype(), "; a dimension and numbers are expected");
  const int d = wrap_dim(dim, y.dim(), "trapezoid");
  const DType out = integral_dtype(y, x);
  if (y.size(d) == 0) return to(sum(y, {d}), out);
  if (x.defined()) {
    return to(div(sum(twice_areas("trapezoid", y, x, dx, d), {d}), 2.0), out);
  }
  // At even distances each height counts once, and those at both ends half.
  const DType wide = sum_dtype(out);
  const auto end = [&](int64_t i) { return to(select(y, d, i), wide); };
  const Tensor ends = div(add(end(0), end(-1)), 2.0);
  const std::optional<DType> summed =
      is_differentiable(y.dtype()) ? std::optional(wide) : std::nullopt;
  return to(mul(sub(sum(y, {d}, false, summed), ends), dx), out);
}

Tensor cumulative_trapezoid_composite(const Tensor& y, const Tensor& x, double dx, int64_t dim) {
  check(y.dim() > 0 && y.dtype() != DType::Bool, "cumulative_trapezoid: y has shape ", y.sizes(),
        " and dtype ", y.dtype(), "; a dimension and numbers are expected");
  const int d = wrap_dim(dim, y.dim(), "cumulative_trapezoid");
  const DType out = integral_dtype(y, x);
  if (y.size(d) == 0) return to(clone(y), out);
  return to(div(cumsum(twice_areas("cumulative_trapezoid", y, x, dx, d), d), 2.0), out);
}

namespace {

Tensor along(const Tensor& x, int d, int64_t from, int64_t count) {
  return narrow(x, d, from < 0 ? from + x.size(d) : from, count);
}

// a u + b v + c w.
Tensor combined(const Operand& a, const Tensor& u, const Operand& b, const Tensor& v,
                const Operand& c, const Tensor& w) {
  return add(add(mul(u, a), mul(v, b)), mul(w, c));
}

// Of samples `step` apart.
Tensor even_gradients(const Tensor& x, int d, double step, int64_t edge_order) {
  const int64_t inner = x.size(d) - 2;
  const Tensor middle = div(sub(along(x, d, 2, inner), along(x, d, 0, inner)), 2 * step);
  const auto at = [&](int64_t i) { return along(x, d, i, 1); };
  Tensor first = sub(at(1), at(0)), last = sub(at(-1), at(-2));
  if (edge_order == 2) {
    first = combined(-1.5, at(0), 2.0, at(1), -0.5, at(2));
    last = combined(1.5, at(-1), -2.0, at(-2), 0.5, at(-3));
  }
  return cat({div(first, step), middle, div(last, step)}, d);
}

// The second-order gradients between distances `before` and `after` to both neighbours: the weights
// of the three samples are those of the parabola through them.
Tensor parabola_gradients(const Tensor& x, int d, const Tensor& before, const Tensor& after) {
  const int64_t inner = x.size(d) - 2;
  const Tensor both = add(before, after);
  return combined(neg(div(after, mul(before, both))), along(x, d, 0, inner),
                  div(sub(after, before), mul(before, after)), along(x, d, 1, inner),
                  div(before, mul(after, both)), along(x, d, 2, inner));
}

// The gradient of the parabola through the three samples at one end, the outermost first, which are
// `near` and then `far` apart.
Tensor end_gradient(const Tensor& outer, const Tensor& next, const Tensor& third,
                    const Tensor& near, const Tensor& far) {
  const Tensor both = add(near, far);
  return combined(neg(div(add(both, near), mul(near, both))), outer, div(both, mul(near, far)),
                  next, neg(div(near, mul(far, both))), third);
}

// Of samples at coordinates, (size of d).
Tensor uneven_gradients(const Tensor& x, int d, const Tensor& coordinates, int64_t edge_order) {
  const int64_t n = x.size(d);
  check(coordinates.dim() == 1 && coordinates.size(0) == n, "gradient: coordinates of shape ",
        coordinates.sizes(), " for dim ", d + 1, " of ", x.sizes(), ", (", n, ",) is expected");
  Dims shape = Dims::filled(x.dim() - d, 1);
  shape[0] = n - 1;
  const Tensor steps = reshape(difference(widened(coordinates), 0), shape);
  const auto at = [&](int64_t i) { return along(x, d, i, 1); };
  const auto step = [&](int64_t i) { return along(steps, 0, i, 1); };
  const Tensor middle =
      parabola_gradients(x, d, along(steps, 0, 0, n - 2), along(steps, 0, 1, n - 2));
  Tensor first, last;
  if (edge_order == 2) {
    first = end_gradient(at(0), at(1), at(2), step(0), step(1));
    last = neg(end_gradient(at(-1), at(-2), at(-3), step(-1), step(-2)));
  } else {
    first = div(sub(at(1), at(0)), step(0));
    last = div(sub(at(-1), at(-2)), step(-1));
  }
  return cat({first, middle, last}, d);
}

// `gradients(x, d, k)` for each of the dims, for each of which one of `given` spacings must be
// there.
template <class Gradients>
std::vector<Tensor> each_gradient(const Tensor& x, const OptionalDims& dim, int64_t edge_order,
                                  std::optional<size_t> given, const Gradients& gradients) {
  const Dims dims = wrap_given_or_all(dim, x.dim(), "gradient");
  check(edge_order == 1 || edge_order == 2, "gradient: edge_order is ", edge_order,
        ", 1 or 2 is expected");
  check(x.dtype() != DType::Bool, "gradient: x has dtype bool, numbers are expected");
  check(!given || *given == static_cast<size_t>(dims.size()), "gradient: ", given.value_or(0),
        " spacings for ", dims.size(), " dims");
  std::vector<Tensor> out;
  for (int k = 0; k < dims.size(); ++k) {
    const int d = static_cast<int>(dims[k]);
    check(x.dim() > 0 && x.size(d) > edge_order, "gradient: dim ", d + 1, " of ", x.sizes(),
          " is too short, ", edge_order + 1, " positions are expected");
    const Tensor y = gradients(widened(x), d, static_cast<size_t>(k));
    out.push_back(is_reduced_floating(x.dtype()) ? to(y, x.dtype()) : y);
  }
  return out;
}

}  // namespace

std::vector<Tensor> gradient_composite(const Tensor& x, double spacing, const OptionalDims& dim,
                                       int64_t edge_order) {
  return each_gradient(x, dim, edge_order, {}, [&](const Tensor& from, int d, size_t) {
    return even_gradients(from, d, spacing, edge_order);
  });
}

std::vector<Tensor> gradient_by_composite(const Tensor& x, const std::vector<double>& spacing,
                                          const OptionalDims& dim, int64_t edge_order) {
  return each_gradient(x, dim, edge_order, spacing.size(),
                       [&](const Tensor& from, int d, size_t k) {
                         return even_gradients(from, d, spacing[k], edge_order);
                       });
}

std::vector<Tensor> gradient_at_composite(const Tensor& x, const std::vector<Tensor>& spacing,
                                          const OptionalDims& dim, int64_t edge_order) {
  return each_gradient(x, dim, edge_order, spacing.size(),
                       [&](const Tensor& from, int d, size_t k) {
                         return uneven_gradients(from, d, spacing[k], edge_order);
                       });
}

}  // namespace moonlet
