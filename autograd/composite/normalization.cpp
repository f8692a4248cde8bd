// autograd/composite/normalization.cpp: normalisation with statistics that are given, or whose
// results nobody wants.
#include "autograd/formulas/common.h"
#include "autograd/uses_composite_normalization.h"

namespace moonlet {

using formulas::widened;

Tensor layer_norm_composite(const Tensor& x, const Dims& normalized_shape, const Tensor& weight,
                            const Tensor& bias, double eps) {
  return std::get<0>(native_layer_norm(x, normalized_shape, weight, bias, eps));
}

namespace {
Tensor per_channel(const char* name, const Tensor& v, const Tensor& x) {
  check(v.dim() == 1 && v.size(0) == x.size(1), "batch_norm: ", name, " has shape ", v.sizes(),
        ", (", x.size(1), ",) is wanted");
  Dims sizes = Dims::filled(x.dim(), 1);
  sizes[1] = v.size(0);
  return reshape(v, sizes);
}
}  // namespace

Tensor batch_norm_composite(const Tensor& x, const Tensor& running_mean, const Tensor& running_var,
                            const Tensor& weight, const Tensor& bias, bool training,
                            double momentum, double eps) {
  if (training) {
    return std::get<0>(
        native_batch_norm(x, weight, bias, running_mean, running_var, momentum, eps));
  }
  check(x.dim() >= 2, "batch_norm: x has shape ", x.sizes(), ", (n, c, ...) is wanted");
  check(running_mean.defined() && running_var.defined(),
        "batch_norm: outside training running_mean and running_var are wanted");
  Tensor scale = rsqrt(add(widened(running_var), eps));
  if (weight.defined()) scale = mul(scale, weight);
  Tensor shift = neg(mul(running_mean, scale));
  if (bias.defined()) shift = add(shift, bias);
  const Tensor y = add(mul(widened(x), per_channel("running_var", scale, x)),
                       per_channel("running_mean", shift, x));
  return to(y, x.dtype());
}

Tensor normalize_composite(const Tensor& x, double p, int64_t dim, double eps) {
  const int d = wrap_dim(dim, x.dim(), "normalize");
  return div(x, maximum(norm(x, p, {d}, true), eps));
}

}  // namespace moonlet
