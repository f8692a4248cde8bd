// autograd/composite/activation.cpp: activations with several forms, learned or drawn slopes.
#include "autograd/formulas/common.h"
#include "autograd/tape.h"
#include "autograd/uses_composite_activation.h"

namespace moonlet {

using formulas::widened;

Tensor gelu_composite(const Tensor& x, std::string_view approximate) {
  if (approximate == "none") return gelu_erf(x);
  if (approximate == "tanh") return gelu_tanh(x);
  fail("gelu: approximate is '", approximate, "'; it can be \"none\" or \"tanh\"");
}

Tensor prelu_composite(const Tensor& x, const Tensor& weight) {
  const int64_t channels = x.dim() < 2 ? 1 : x.size(1);
  check(weight.dim() <= 1 && (weight.numel() == 1 || weight.numel() == channels),
        "prelu: weight has shape ", weight.sizes(), " for an x of ", x.sizes(), ", one element",
        x.dim() < 2 ? "" : " or one for each channel", " is expected");
  Dims sizes = Dims::filled(x.dim(), 1);
  if (weight.numel() != 1) sizes[1] = channels;
  return prelu_by(x, reshape(to(weight, x.dtype()), sizes));
}

Tensor rrelu_composite(const Tensor& given, double lower, double upper, bool training,
                       Generator* generator) {
  check(lower <= upper, "rrelu: lower is ", lower, " and upper ", upper,
        ", which must not be smaller");
  if (!training) return leaky_relu(given, (lower + upper) / 2);
  const Tensor x = widened(given);
  Tensor slope = empty_like(x);
  {
    const NoGrad no_grad;
    uniform_(slope, lower, upper, generator);
  }
  return to(where(gt(x, 0.0), x, mul(x, slope)), given.dtype());
}

Tensor softshrink_composite(const Tensor& x, double lambd) {
  check(lambd >= 0, "softshrink: lambd is ", lambd, ", at least 0 is expected");
  return softshrink_by(x, lambd);
}

}  // namespace moonlet
