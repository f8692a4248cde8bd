// autograd/composite/compare.cpp: tests of whole tensors, tests with a tolerance, membership, fills
// by a mask.
#include "autograd/host_value.h"
#include "autograd/tape.h"
#include "autograd/uses_composite_compare.h"

namespace moonlet {

Tensor isreal_composite(const Tensor& x) {
  if (is_complex(x.dtype())) return eq(imag(x), 0.0);
  return ones_like(x, DType::Bool);
}

// |a - b| of integers as float64: in int64, where it is exact, unless their signs differ.
static Tensor integer_distance(const Tensor& x, const Tensor& other) {
  const Tensor a = to(x, DType::Int64), b = to(other, DType::Int64);
  const Tensor apart = add(abs(to(a, DType::Float64)), abs(to(b, DType::Float64)));
  return where(ne(lt(a, int64_t{0}), lt(b, int64_t{0})), apart, to(abs(sub(a, b)), DType::Float64));
}

Tensor isclose_composite(const Tensor& x, const Tensor& other, double rtol, double atol,
                         bool equal_nan) {
  check(x.dtype() == other.dtype(), "isclose: dtypes ", x.dtype(), " and ", other.dtype(),
        "; they must be the same");
  check(rtol >= 0 && atol >= 0, "isclose: rtol ", rtol, " and atol ", atol,
        "; neither may be negative");
  const GradModeGuard unrecorded(false);
  const bool inexact = is_floating(x.dtype()) || is_complex(x.dtype());
  // 16-bit floats round at each step below, as PyTorch's do.
  const bool at_once = is_floating(x.dtype()) && !is_reduced_floating(x.dtype());
  Tensor close = at_once ? is_near(x, other, rtol, atol) : eq(x, other);
  if (inexact && equal_nan) close = logical_or(close, logical_and(isnan(x), isnan(other)));
  if (at_once || (rtol == 0 && atol == 0)) return close;
  const Tensor b = x.dtype() == DType::Bool ? to(other, DType::Int64) : other;
  const Tensor distance = inexact ? abs(sub(x, b)) : integer_distance(x, b);
  const Tensor near = le(distance, add(abs(mul(b, rtol)), atol));
  return logical_or(close, logical_and(near, isfinite(distance)));
}

bool allclose_composite(const Tensor& x, const Tensor& other, double rtol, double atol,
                        bool equal_nan) {
  return host_value<bool>(all(isclose(x, other, rtol, atol, equal_nan)));
}

bool equal_composite(const Tensor& x, const Tensor& other) {
  check(x.device() == other.device(), "equal: tensors on ", x.device(), " and ", other.device(),
        "; move one with :to(device)");
  if (!(x.sizes() == other.sizes())) return false;
  const GradModeGuard unrecorded(false);
  return host_value<bool>(all(eq(x, other)));
}

bool is_nonzero_composite(const Tensor& x) {
  check(x.numel() == 1, "is_nonzero: one element is expected, got shape ", x.sizes());
  return host_value<bool>(x);
}

bool is_same_size_composite(const Tensor& x, const Tensor& other) {
  return x.sizes() == other.sizes();
}

namespace {

// From so many tests on, sorting takes less than comparing with each.
constexpr int64_t kFewTests = 16;

// Among the sorted numbers of both, those of one value lie together, the tests in front. So a value
// is a test's when the first of its numbers is.
Tensor is_in_sorted(const Tensor& elements, const Tensor& tests, bool assume_unique) {
  const int64_t count = elements.numel(), test_count = tests.numel();
  const auto [sorted, order] = sort(cat({tests, elements}, 0), 0, false, true);
  const Tensor first_of_tests = le(order, test_count);
  const int64_t all = count + test_count;
  const Tensor repeats = cat({zeros({1}, {DType::Bool, elements.device()}),
                              eq(slice(sorted, 0, 1, all, 1), slice(sorted, 0, 0, all - 1, 1))},
                             0);
  Tensor found;
  if (assume_unique) {
    found = repeats;  // of an element's own kind there is no other
  } else {
    const Tensor starts = logical_not(repeats);
    found = index_select(masked_select(first_of_tests, starts), 0, cumsum(starts, 0));
  }
  const Tensor result = scatter(zeros({all}, {DType::Bool, elements.device()}), 0, order, found);
  return slice(result, 0, test_count, all, 1);
}

Tensor tensor_of(const Operand& x, const Operand& beside) {
  if (x.is_tensor()) return x.tensor();
  const Options options = {x.scalar().default_dtype(), beside.tensor().device()};
  return full({}, x.scalar(), options);
}

}  // namespace

Tensor isin_composite(const Operand& elements, const Operand& test_elements, bool assume_unique,
                      bool invert) {
  check(elements.is_tensor() || test_elements.is_tensor(),
        "isin: at least one of elements and test_elements must be a tensor");
  const GradModeGuard unrecorded(false);
  const Tensor x = tensor_of(elements, test_elements);
  const Tensor tests = reshape(tensor_of(test_elements, elements), {-1});
  Tensor found = zeros(x.sizes(), {DType::Bool, x.device()});
  if (tests.numel() < kFewTests) {
    for (int64_t i = 0; i < tests.numel(); ++i)
      found = logical_or(found, eq(x, select(tests, 0, i)));
  } else if (x.numel() > 0) {
    const DType dtype = promote(x.dtype(), tests.dtype(), "isin");
    found = reshape(is_in_sorted(to(reshape(x, {-1}), dtype), to(tests, dtype), assume_unique),
                    x.sizes());
  }
  return invert ? logical_not(found) : found;
}

Tensor masked_fill_tensor_composite(const Tensor& x, const Tensor& mask, const Tensor& value) {
  check(value.dim() == 0, "masked_fill: value has shape ", value.sizes(),
        "; a tensor of no dimensions is expected");
  check(is_complex(x.dtype()) || !is_complex(value.dtype()), "masked_fill: value has dtype ",
        value.dtype(), ", but ", x.dtype(), " is real");
  return where(mask, to(value, x.dtype(), x.device()), x);
}

std::vector<Tensor> where_nonzero_composite(const Tensor& condition) {
  return unbind(nonzero(condition.dim() == 0 ? unsqueeze(condition, 0) : condition), 1);
}

}  // namespace moonlet
