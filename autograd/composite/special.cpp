// autograd/composite/special.cpp: special functions that check an argument before, or are sums.
#include <cmath>

#include "autograd/uses_composite_special.h"
#include "tensor/runtime/execution.h"

namespace moonlet {

Tensor polygamma_composite(const Tensor& x, int64_t n) {
  check(n >= 0 && n <= int64_t{1} << 53, "polygamma: the order is ", n, "; it must be 0 to 2^53");
  return n == 0 ? digamma(x) : polygamma_above_0(x, n);
}

Tensor polygamma_of_order_composite(int64_t n, const Tensor& x) { return polygamma(x, n); }

Tensor mvlgamma_composite(const Tensor& x, int64_t p) {
  check(p >= 1, "mvlgamma: p is ", p, "; it must be at least 1");
  check(x.dtype() != DType::Bool, "mvlgamma: dtype bool is not supported");
  const double count = static_cast<double>(p);
  const double constant = count * (count - 1) / 4 * std::log(3.14159265358979323846);
  const DType dtype = is_floating(x.dtype()) ? x.dtype() : execution.default_dtype;
  const Tensor halves = mul(arange(0, p - 1, 1, dtype, x.device()), 0.5);
  return add(sum(lgamma(sub(unsqueeze(x, -1), halves)), Dims{-1}), constant);
}

Tensor logit_composite(const Tensor& x, std::optional<double> eps) {
  return logit_within(x, eps.value_or(-1.0));
}

}  // namespace moonlet
