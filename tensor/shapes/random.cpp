// tensor/shapes/random.cpp: argument checks and result shapes of random draws.
#include "tensor/shapes/random.h"

#include <cmath>
#include <limits>

#include "tensor/shapes_random.h"

namespace moonlet::shapes {

namespace {

template <class T>
T rounded(double v) {
  if constexpr (std::is_same_v<T, double>)
    return v;
  else
    return T(static_cast<float>(v));
}

// The next lower value of a type.
template <class T>
T next_below(T v) {
  if constexpr (std::is_floating_point_v<T>) {
    return std::nextafter(v, -std::numeric_limits<T>::infinity());
  } else {
    // Bits of 16-bit floats count the values away from zero.
    const bool negative = (v.bits & 0x8000u) != 0, zero = (v.bits & 0x7fffu) == 0;
    v.bits = static_cast<uint16_t>(zero ? 0x8001u : negative ? v.bits + 1u : v.bits - 1u);
    return v;
  }
}

// The largest value of a floating dtype that is at most v, or below v.
double at_most(DType dtype, double v, bool below = false) {
  return visit<dtypes::floating>(dtype, [&]<class T>() -> double {
    const T near = rounded<T>(v);
    const double value = static_cast<double>(near);
    return value > v || (below && value == v) ? static_cast<double>(next_below(near)) : value;
  });
}
double at_least(DType dtype, double v) { return -at_most(dtype, -v); }
double nearest(DType dtype, double v) {
  return visit<dtypes::floating>(
      dtype, [&]<class T>() -> double { return static_cast<double>(rounded<T>(v)); });
}

}  // namespace

void check_probability(const char* op, double p) {
  check(p >= 0 && p <= 1, op, ": p = ", p, " is not between 0 and 1");
}

void check_states(const char* op, const Tensor& states) {
  check(states.dtype() == DType::Int64 && states.dim() >= 2 && states.size(-2) == 1 &&
            states.size(-1) == 2,
        op, ": the states of random numbers are ", states.dtype(), " ", states.sizes(),
        "; int64 (*, 1, 2) expected");
}

void uniform(const Tensor& x, double from, double to) { uniform_bounds(x, from, to); }

void normal(const Tensor&, double, double std) {
  check(std >= 0, "normal_: the standard deviation ", std, " is negative");
}

void exponential(const Tensor&, double lambda) {
  check(lambda > 0, "exponential_: the rate ", lambda, " is not positive");
}

void bernoulli_fill(const Tensor&, double p) { check_probability("bernoulli_", p); }

// The largest integer of a dtype, of a floating one the largest up to which it holds all.
static int64_t largest_whole(DType dtype) {
  if (is_floating(dtype)) return int64_t{1} << (mantissa_bits(dtype) + 1);
  return static_cast<int64_t>(std::min<uint64_t>(largest_integer(dtype), INT64_MAX));
}

IntegerRange integer_range(const Tensor& x, std::optional<int64_t> low,
                           std::optional<int64_t> high) {
  if (low && high) return {*low, *high};
  if (low || high) return {1, low ? *low : *high};
  return {0, largest_whole(x.dtype())};
}

void random(const Tensor& x, std::optional<int64_t> low, std::optional<int64_t> high) {
  const char* op = "random_";
  const auto [first, last] = integer_range(x, low, high);
  check(first <= last, op, ": no integer from ", first, " to ", last);
  if (x.dtype() == DType::Bool) {
    check(first >= 0 && last <= 1, op, ": bool holds 0 and 1, not ", first, " to ", last);
  } else if (is_floating(x.dtype())) {
    const double most = at_most(x.dtype(), std::numeric_limits<double>::max());
    check(static_cast<double>(first) >= -most && static_cast<double>(last) <= most, op, ": ",
          x.dtype(), " holds ", -most, " to ", most, ", not ", first, " to ", last);
  } else {
    const int64_t least = smallest_integer(x.dtype()), most = largest_whole(x.dtype());
    check(first >= least && last <= most, op, ": ", x.dtype(), " holds ", least, " to ", most,
          ", not ", first, " to ", last);
  }
}

DrawBounds uniform_bounds(const Tensor& x, double from, double to) {
  const double most = at_most(x.dtype(), std::numeric_limits<double>::max());
  check(from <= to && from >= -most && to <= most && to - from <= most,
        "uniform_: no numbers from ", from, " to ", to, " in dtype ", x.dtype());
  if (from == to) return {nearest(x.dtype(), from), nearest(x.dtype(), from)};
  return {at_least(x.dtype(), from), at_most(x.dtype(), to, true)};
}

DrawBounds integer_bounds(const Tensor& x, IntegerRange range) {
  // From 2^53 on a double may be above the integer it is made of.
  const double most = static_cast<double>(range.last);
  const bool above = most >= 0x1p63 || static_cast<int64_t>(most) > range.last;
  return {at_least(x.dtype(), static_cast<double>(range.first)), at_most(x.dtype(), most, above)};
}

double exponential_least(const Tensor& x, double lambda) {
  check(lambda > 0, "exponential_: the rate ", lambda, " is not positive");
  return std::isfinite(lambda) ? -at_most(x.dtype(), 0, true) : 0;
}

Result dropout_mask(const Tensor& x, double p) {
  check_probability("dropout_mask", p);
  return like(x);
}

Result random_states(const Tensor& x, int64_t n) {
  check(n >= 0, "random_states: n = ", n, "; 0 or more expected");
  numel_of({x.numel(), n}, "random_states");
  Dims sizes = x.sizes();
  sizes.push_back(1);
  sizes.push_back(2);
  return {sizes, {DType::Int64, x.device()}};
}

Result dropout_rows(const Tensor& states, double p, int64_t first, int64_t rows, int64_t columns,
                    int64_t length, DType dtype) {
  const char* op = "dropout_rows";
  check_probability(op, p);
  check_states(op, states);
  check(first >= 0 && rows >= 0 && columns >= 0 && columns <= length, op, ": rows from ", first,
        " on, ", rows, " of them, and ", columns, " of ", length, " columns");
  check(is_floating(dtype), op, ": dtype ", dtype, "; a floating one expected");
  Dims sizes = states.sizes();
  sizes[states.dim() - 2] = rows;
  sizes[states.dim() - 1] = columns;
  return {sizes, {dtype, states.device()}};
}

Result poisson_draw(const Tensor& rate) { return like(rate); }

Result standard_gamma(const Tensor& concentration) { return like(concentration); }

Result binomial_draw(const Tensor& count, const Tensor& prob) {
  check_same_shape("binomial", count, prob);
  return like(count);
}

Result random_order(const Tensor& keys) {
  check(keys.dim() == 1, "random_order: keys have shape ", keys.sizes(),
        "; one dimension expected");
  return like(keys, DType::Int64);
}

Result randperm(int64_t n, std::optional<DType> dtype, Device device) {
  check(n >= 0, "randperm: n = ", n, "; 0 or more expected");
  const DType of = dtype.value_or(DType::Int64);
  check(!is_complex(of), "randperm: dtype ", of, "; a real one expected");
  check(n <= largest_whole(of), "randperm: n = ", n, ", and ", of, " holds whole numbers to ",
        largest_whole(of));
  return {{n}, {DType::Int64, device}};
}

Result multinomial(const Tensor& probs, int64_t num_samples, bool replacement) {
  check(probs.dim() == 1 || probs.dim() == 2, "multinomial: probs has shape ", probs.sizes(),
        "; one or two dimensions expected");
  check(num_samples >= 1, "multinomial: ", num_samples, " samples; 1 or more expected");
  check(replacement || num_samples <= probs.size(-1), "multinomial: ", num_samples,
        " samples without replacement from ", probs.size(-1), " categories");
  check(probs.size(-1) > 0, "multinomial: no categories in shape ", probs.sizes());
  Dims sizes = probs.sizes();
  sizes.back() = num_samples;
  return {sizes, {DType::Int64, probs.device()}};
}

}  // namespace moonlet::shapes
