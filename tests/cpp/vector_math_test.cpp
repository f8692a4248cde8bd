// tests/cpp/vector_math_test.cpp: the vector functions of pointwise ops beside the C library's long
// double, on dense samples of their ranges: within 2 units in the last place, with the right
// infinities, NaN and zeros.
#include "tests/cpp/catch2.h"

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "hwy/targets.h"
#include "tensor/raw_activation.h"
#include "tensor/raw_arithmetic.h"
#include "tensor/raw_math.h"
#include "tensor/raw_special.h"

using namespace moonlet;

namespace {

using Wide = long double;

template <class T>
constexpr DType kDType = sizeof(T) == 4 ? DType::Float32 : DType::Float64;

template <class T>
Tensor of(const std::vector<T>& values) {
  Tensor out = empty_plain({static_cast<int64_t>(values.size())}, {kDType<T>, {}});
  std::copy(values.begin(), values.end(), out.data<T>());
  return out;
}

// Processors that round a product before the sum lose more near zeros of a function.
double allowance() { return (hwy::SupportedTargets() & (HWY_AVX2 | HWY_AVX3)) != 0 ? 1 : 64; }

// How far `got` is from `want`, in units of the last place of T at `want`.
template <class T>
double units(T got, Wide want) {
  if (std::isnan(want) || std::isnan(got)) return std::isnan(want) && std::isnan(got) ? 0 : 1e9;
  const T nearest = static_cast<T>(want);
  if (std::isinf(nearest) || std::isinf(got)) return nearest == got ? 0 : 1e9;
  if (want == 0) return got == 0 && std::signbit(got) == std::signbit(nearest) ? 0 : 1e9;
  int exponent;
  std::frexp(want, &exponent);
  const int digits = std::numeric_limits<T>::digits;
  const int least = std::numeric_limits<T>::min_exponent - digits;
  return static_cast<double>(std::fabs(static_cast<Wide>(got) - want) /
                             std::ldexp(Wide(1), std::max(exponent - digits, least)));
}

// The x with erfc(x) = q, for q up to 1, and that with erf(x) = y, by Newton's method.
Wide inverse_erfc(Wide q) {
  Wide x = std::sqrt(-std::log(q));
  for (int i = 0; i < 40; ++i) {
    const Wide rest = std::erfc(x), gradient = std::exp(-x * x) / rest;
    x += (std::log(rest) - std::log(q)) * std::sqrt(std::acos(Wide(-1))) / 2 / gradient;
  }
  return x;
}
Wide inverse_erf(Wide y) {
  const Wide size = std::fabs(y);
  if (!(size < 1)) return size == 1 ? y * HUGE_VALL : NAN;
  if (size > 0.5) return std::copysign(inverse_erfc(1 - size), y);
  Wide x = size;
  for (int i = 0; i < 40; ++i)
    x -= (std::erf(x) - size) * std::sqrt(std::acos(Wide(-1))) / 2 * std::exp(x * x);
  return std::copysign(x, y);
}
Wide inverse_ndtr(Wide p) {
  if (!(p > 0 && p < 1)) return p == 0 ? -HUGE_VALL : p == 1 ? HUGE_VALL : NAN;
  const Wide root = std::sqrt(Wide(2));
  if (p < 0.25) return -root * inverse_erfc(2 * p);
  return root * (p > 0.75 ? inverse_erfc(2 * (1 - p)) : inverse_erf(2 * p - 1));
}

struct Range {
  double low, high;
};

// Evenly spaced numbers of each range, all magnitudes of the widest, and the special ones.
template <class T>
std::vector<T> sample(const std::vector<Range>& ranges) {
  constexpr int kEven = 20000, kMagnitudes = 4000;
  std::vector<T> out;
  Range widest{HUGE_VAL, -HUGE_VAL};
  for (const Range& range : ranges) {
    widest = {std::min(widest.low, range.low), std::max(widest.high, range.high)};
    const double step = (range.high - range.low) / kEven;
    for (int i = 0; i <= kEven; ++i) out.push_back(static_cast<T>(range.low + i * step));
  }
  const double least = std::numeric_limits<T>::min_exponent - std::numeric_limits<T>::digits;
  const double most = std::numeric_limits<T>::max_exponent;
  for (int i = 0; i < kMagnitudes; ++i) {
    const double size = std::exp2(least + (most - least) * i / kMagnitudes);
    for (const double x : {size, -size})
      if (x >= widest.low && x <= widest.high) out.push_back(static_cast<T>(x));
  }
  const T most_finite = std::numeric_limits<T>::max();
  for (const T x : {T(0), T(1), T(HUGE_VAL), most_finite, std::numeric_limits<T>::denorm_min()})
    out.insert(out.end(), {x, -x});
  out.push_back(static_cast<T>(NAN));
  return out;
}

struct Function {
  const char* name;
  std::function<Tensor(const Tensor&)> ours;
  std::function<Wide(Wide)> truth;
  std::vector<Range> ranges;
  double allowed = 2;
};

template <class T>
void check_function(const Function& f) {
  const std::vector<T> xs = sample<T>(f.ranges);
  const Tensor y = f.ours(of(xs));
  double worst = 0;
  T worst_x = 0;
  for (size_t i = 0; i < xs.size(); ++i) {
    const double miss = units(y.data<T>()[i], f.truth(xs[i]));
    if (miss > worst) worst = miss, worst_x = xs[i];
  }
  INFO(f.name << " of " << name(kDType<T>) << " at " << worst_x);
  CHECK(worst <= f.allowed * allowance());
}

#define FUNCTION(NAME, TRUTH, ...)                                                                \
  {                                                                                               \
#NAME,                                                                                        \
        [](const Tensor& x) { return raw::NAME(x); },                                             \
                                                   [](Wide x) -> Wide { return TRUTH; },          \
                                                                                      __VA_ARGS__ \
  }

std::vector<Function> functions() {
  constexpr double kLarge = 1e30;
  const std::vector<Range> line = {{-3, 3}, {-0.5, 0.5}, {-90, 90}, {-kLarge, kLarge}};
  const std::vector<Range> positive = {{0, 3}, {0.9, 1.1}, {0, 1e-37}, {0, kLarge}};
  const std::vector<Range> inside = {{-1, 1}, {-0.01, 0.01}, {0.49, 0.51}, {0.99, 1}};
  const std::vector<Range> turns = {{-3.2, 3.2}, {-20, 20}, {-8100, 8100}, {-1e6, 1e6}};
  const std::vector<Range> exponents = {{-3, 3}, {-90, 90}, {-700, 710}};
  return {
      FUNCTION(exp, std::exp(x), exponents),
      FUNCTION(exp2, std::exp2(x), {{-3, 3}, {-150, 130}, {-1075, 1025}}),
      FUNCTION(expm1, std::expm1(x), exponents),
      FUNCTION(log, std::log(x), positive),
      FUNCTION(log2, std::log2(x), positive),
      FUNCTION(log10, std::log10(x), positive),
      FUNCTION(log1p, std::log1p(x), {{-1, 1}, {-0.01, 0.01}, {-1, kLarge}}),
      FUNCTION(sinh, std::sinh(x), exponents),
      FUNCTION(cosh, std::cosh(x), exponents),
      FUNCTION(tanh, std::tanh(x), line),
      FUNCTION(asinh, std::asinh(x), line),
      FUNCTION(acosh, std::acosh(x), {{1, 3}, {1, 1.01}, {1, kLarge}}),
      FUNCTION(atanh, std::atanh(x), inside),
      FUNCTION(sin, std::sin(x), turns),
      FUNCTION(cos, std::cos(x), turns),
      FUNCTION(tan, std::tan(x), turns),
      FUNCTION(asin, std::asin(x), inside),
      FUNCTION(acos, std::acos(x), inside),
      FUNCTION(atan, std::atan(x), line),
      FUNCTION(erf, std::erf(x), line),
      FUNCTION(erfc, std::erfc(x), {{-3, 3}, {-6, 6}, {3, 10}, {9, 27}}),
      FUNCTION(lgamma, std::lgamma(x), {{0, 4}, {0.99, 1.01}, {1.99, 2.01}, {0, 1e30}}),
      FUNCTION(special_ndtr, std::erfc(-x * std::sqrt(Wide(0.5))) / 2,
               {{-3, 3}, {-13, 9}, {-37, 9}}),
      FUNCTION(erfinv, inverse_erf(x), {{-1, 1}, {-0.01, 0.01}, {0.99, 1}}, 3),
      FUNCTION(special_ndtri, inverse_ndtr(x), {{0, 1}, {0.49, 0.51}, {0, 1e-6}, {0.99, 1}}, 3),
  };
}

struct BinaryFunction {
  const char* name;
  std::function<Tensor(const Tensor&, const Tensor&)> ours;
  std::function<Wide(Wide, Wide)> truth;
};

// All pairs of a few hundred numbers of all magnitudes.
template <class T>
void check_pairs(const BinaryFunction& f) {
  std::vector<T> few;
  for (int i = -120; i <= 120; ++i)
    few.push_back(static_cast<T>(std::copysign(std::exp2(std::abs(i) * 1.03125 - 60), i)));
  for (const T x : {T(0), T(1), T(2), T(3), T(0.5), T(HUGE_VAL), std::numeric_limits<T>::max()})
    few.insert(few.end(), {x, -x});
  few.push_back(static_cast<T>(NAN));
  std::vector<T> xs, ys;
  for (const T x : few)
    for (const T y : few) xs.push_back(x), ys.push_back(y);
  const Tensor z = f.ours(of(xs), of(ys));
  double worst = 0;
  size_t at = 0;
  for (size_t i = 0; i < xs.size(); ++i) {
    const double miss = units(z.data<T>()[i], f.truth(xs[i], ys[i]));
    if (miss > worst) worst = miss, at = i;
  }
  INFO(f.name << " of " << name(kDType<T>) << " at " << xs[at] << ", " << ys[at]);
  CHECK(worst <= 2 * allowance());
}

#define PAIRS(NAME, TRUTH)                                                                       \
  BinaryFunction {                                                                               \
#NAME, [](const Tensor& x,                                                                   \
              const Tensor& y) { return raw::NAME(x, y); }, [](Wide x,                           \
                                                               Wide y) -> Wide { return TRUTH; } \
  }

}  // namespace

TEST_CASE("vector functions of one number are within 2 units in the last place", "[math]") {
  for (const Function& f : functions()) {
    check_function<float>(f);
    check_function<double>(f);
  }
}

TEST_CASE("vector functions of two numbers are within 2 units in the last place", "[math]") {
  for (const BinaryFunction& f : {PAIRS(atan2, std::atan2(x, y)), PAIRS(hypot, std::hypot(x, y)),
                                  PAIRS(pow, std::pow(x, y))}) {
    check_pairs<float>(f);
    check_pairs<double>(f);
  }
  check_pairs<float>(
      PAIRS(nextafter_wide, std::nextafter(static_cast<float>(x), static_cast<float>(y))));
  check_pairs<double>(
      PAIRS(nextafter_wide, std::nextafter(static_cast<double>(x), static_cast<double>(y))));
}

TEST_CASE("activations keep large numbers, and their gradients NaN", "[activation]") {
  const Tensor large = raw::gelu_erf(of<float>({1e30f, -1e30f}));
  CHECK(large.data<float>()[0] == 1e30f);
  CHECK(large.data<float>()[1] == 0.0f);
  const Tensor one = of<float>({1}), nan = of<float>({NAN});
  CHECK(std::isnan(raw::elu_grad_x(one, nan, 1.0).data<float>()[0]));
  CHECK(std::isnan(raw::celu_grad_x(one, nan, 1.0).data<float>()[0]));
  CHECK(std::isnan(raw::selu_grad_x(one, nan).data<float>()[0]));
}
