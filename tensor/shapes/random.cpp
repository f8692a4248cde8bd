// tensor/shapes/random.cpp: argument checks and result shapes of random draws.
#include "tensor/shapes/random.h"

namespace moonlet::shapes {

void check_probability(const char* op, double p) {
  check(p >= 0 && p <= 1, op, ": p = ", p, " is not between 0 and 1");
}

void check_range(const char* op, const Tensor& x, int64_t low, int64_t high) {
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

Tensor randperm(int64_t n, Device device) {
  check(n >= 0, "randperm: n = ", n, "; 0 or more wanted");
  return empty(Dims{n}, Options{DType::Int64, device}, "randperm");
}

Tensor dropout_mask(const Tensor& x, double p) {
  check_probability("dropout_mask", p);
  return empty(x.sizes(), options_of(x), "dropout_mask");
}

Tensor multinomial(const Tensor& probs, int64_t num_samples, bool replacement) {
  check(probs.dim() == 1 || probs.dim() == 2, "multinomial: probs has shape ", probs.sizes(),
        "; one or two dimensions wanted");
  check(num_samples >= 1, "multinomial: ", num_samples, " samples; 1 or more wanted");
  check(replacement || num_samples <= probs.size(-1), "multinomial: ", num_samples,
        " samples without replacement from ", probs.size(-1), " categories");
  check(probs.size(-1) > 0, "multinomial: no categories in shape ", probs.sizes());
  Dims sizes = probs.sizes();
  sizes.back() = num_samples;
  return empty(sizes, Options{DType::Int64, probs.device()}, "multinomial");
}

}  // namespace moonlet::shapes
