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

Tensor prelu_composite(const Tensor& given, const Tensor& weight) {
  const int64_t channels = given.dim() < 2 ? 1 : given.size(1);
  check(weight.dim() <= 1 && (weight.numel() == 1 || weight.numel() == channels),
        "prelu: weight has shape ", weight.sizes(), " for an x of ", given.sizes(), ", one element",
        given.dim() < 2 ? "" : " or one for each channel", " is wanted");
  const Tensor x = widened(given);
  Dims sizes = Dims::filled(given.dim(), 1);
  if (weight.numel() != 1) sizes[1] = channels;
  const Tensor slope = reshape(widened(weight), sizes);
  // The slope is multiplied with what it is for alone: its gradient is finite where x is infinite.
  const Tensor positive = gt(x, 0.0);
  return to(where(positive, x, mul(where(positive, 0.0, x), slope)), given.dtype());
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

Tensor softshrink_composite(const Tensor& given, double lambd) {
  check(lambd >= 0, "softshrink: lambd is ", lambd, ", at least 0 is wanted");
  const Tensor x = widened(given);
  // Nothing between the bounds, but NaN stays what it is.
  const Tensor below = where(lt(x, -lambd), add(x, lambd), mul(x, 0.0));
  return to(where(gt(x, lambd), sub(x, lambd), below), given.dtype());
}

Tensor tanhshrink_composite(const Tensor& given) {
  const Tensor x = widened(given);
  return to(sub(x, tanh(x)), given.dtype());
}

}  // namespace moonlet
