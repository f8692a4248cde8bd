// autograd/composite/activation.cpp: activations with several forms.
#include "autograd/uses_composite_activation.h"

namespace moonlet {

Tensor gelu_composite(const Tensor& x, std::string_view approximate) {
  if (approximate == "none") return gelu_erf(x);
  if (approximate == "tanh") return gelu_tanh(x);
  fail("gelu: approximate is '", approximate, "'; it can be \"none\" or \"tanh\"");
}

}  // namespace moonlet
