// tensor/shapes/create.cpp: result shapes of ranges and diagonal matrices.
#include "tensor/shapes/create.h"

#include <cmath>

#include "tensor/runtime/execution.h"
#include "tensor/shapes_create.h"

namespace moonlet::shapes {

static int64_t int_count(int64_t first, int64_t last, int64_t step) {
  if (step > 0 ? first > last : first < last) return 0;
  const uint64_t span = step > 0 ? static_cast<uint64_t>(last) - static_cast<uint64_t>(first)
                                 : static_cast<uint64_t>(first) - static_cast<uint64_t>(last);
  const uint64_t stride = step > 0 ? static_cast<uint64_t>(step) : 0 - static_cast<uint64_t>(step);
  const uint64_t count = span / stride;
  check(count < (uint64_t{1} << 58), "arange: the range from ", first, " to ", last, " by ", step,
        " is too long");
  return static_cast<int64_t>(count) + 1;
}

static int64_t float_count(double first, double last, double step) {
  check(std::isfinite(first) && std::isfinite(last) && std::isfinite(step),
        "arange: the range from ", first, " to ", last, " by ", step, " is not finite");
  // A few units in the last place let 0, 1, 0.1 reach its end.
  const double steps = (last - first) / step;
  const double count = std::floor(steps + std::abs(steps) * 4e-16);
  if (!(count >= 0)) return 0;
  check(count < 2.9e17, "arange: the range from ", first, " to ", last, " by ", step,
        " is too long");
  return static_cast<int64_t>(count) + 1;
}

Scalar arange_first(Scalar start, std::optional<Scalar> stop) {
  return stop ? start : Scalar(int64_t{1});
}

Result arange(Scalar start, std::optional<Scalar> stop, Scalar step, std::optional<DType> dtype,
              std::optional<Device> device) {
  const Scalar first = arange_first(start, stop);
  const Scalar last = stop ? *stop : start;
  check(!first.is_complex() && !last.is_complex() && !step.is_complex(),
        "arange: complex numbers have no order");
  const bool ints = first.is_int() && last.is_int() && step.is_int();
  check(step.to_bool(), "arange: the step is 0");
  const int64_t count = ints ? int_count(first.to_int(), last.to_int(), step.to_int())
                             : float_count(first.to_double(), last.to_double(), step.to_double());
  const DType out = dtype.value_or(ints ? DType::Int64 : execution.default_dtype);
  return {{count}, {out, device.value_or(execution.default_device)}};
}

Result linspace(int64_t steps, Options options) {
  check(steps >= 0, "linspace: ", steps, " steps; 0 or more expected");
  return {{steps}, options};
}

void iota(const Tensor&, Scalar first, Scalar step) {
  check(!first.is_complex() && !step.is_complex(), "iota: complex numbers have no order");
}

static Result triangle(const char* op, const Tensor& x) {
  check(x.dim() >= 2, op, ": x has shape ", x.sizes(), "; two dimensions or more expected");
  return like(x);
}

Result tril(const Tensor& x, int64_t) { return triangle("tril", x); }
Result triu(const Tensor& x, int64_t) { return triangle("triu", x); }

void fill_diagonal(const Tensor& x, Scalar value, bool) {
  check(x.dim() >= 2, "fill_diagonal_: x has shape ", x.sizes(),
        "; two dimensions or more expected");
  for (int d = 1; x.dim() > 2 && d < x.dim(); ++d)
    check(x.size(d) == x.size(0), "fill_diagonal_: x has shape ", x.sizes(),
          "; more than two dimensions must have one size");
  check_fits(value, x.dtype(), "fill_diagonal_");
}

}  // namespace moonlet::shapes
