// tensor/shapes/random.cpp: argument checks and result shapes of random draws.
#include "tensor/shapes/random.h"

#include <cmath>

#include "tensor/shapes_random.h"

namespace moonlet::shapes {

static void check_probability(const char* op, double p) {
  check(p >= 0 && p <= 1, op, ": p = ", p, " is not between 0 and 1");
}

void uniform(const Tensor&, double from, double to) {
  check(from <= to && std::isfinite(to - from), "uniform_: no numbers from ", from, " to ", to);
}

void normal(const Tensor&, double, double std) {
  check(std >= 0, "normal_: the standard deviation ", std, " is negative");
}

void exponential(const Tensor&, double lambda) {
  check(lambda > 0, "exponential_: the rate ", lambda, " is not positive");
}

void bernoulli(const Tensor&, double p) { check_probability("bernoulli_", p); }

void random(const Tensor& x, int64_t low, int64_t high) {
  const char* op = "random_";
  check(low < high, op, ": no integer from ", low, " to below ", high);
  const int bits = static_cast<int>(size_of(x.dtype())) * 8;
  if (x.dtype() == DType::Bool) {
    check(low >= 0 && high <= 2, op, ": bool holds 0 and 1, not ", low, " to below ", high);
  } else if (is_integral(x.dtype()) && bits < 64) {
    const bool is_unsigned = x.dtype() == DType::UInt8;
    const int64_t least = is_unsigned ? 0 : -(int64_t{1} << (bits - 1));
    const int64_t most = is_unsigned ? 255 : (int64_t{1} << (bits - 1)) - 1;
    check(low >= least && high - 1 <= most, op, ": ", x.dtype(), " holds ", least, " to ", most,
          ", not ", low, " to below ", high);
  }
}

Result dropout_mask(const Tensor& x, double p) {
  check_probability("dropout_mask", p);
  return like(x);
}

Result randperm(int64_t n, Device device) {
  check(n >= 0, "randperm: n = ", n, "; 0 or more wanted");
  return {{n}, {DType::Int64, device}};
}

Result multinomial(const Tensor& probs, int64_t num_samples, bool replacement) {
  check(probs.dim() == 1 || probs.dim() == 2, "multinomial: probs has shape ", probs.sizes(),
        "; one or two dimensions wanted");
  check(num_samples >= 1, "multinomial: ", num_samples, " samples; 1 or more wanted");
  check(replacement || num_samples <= probs.size(-1), "multinomial: ", num_samples,
        " samples without replacement from ", probs.size(-1), " categories");
  check(probs.size(-1) > 0, "multinomial: no categories in shape ", probs.sizes());
  Dims sizes = probs.sizes();
  sizes.back() = num_samples;
  return {sizes, {DType::Int64, probs.device()}};
}

}  // namespace moonlet::shapes
