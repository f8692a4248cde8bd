// autograd/composite/normalization.cpp: normalisation with statistics that are given, or whose
// results nobody wants, and of groups, instances and neighbours.
#include <limits>

#include "autograd/formulas/common.h"
#include "autograd/host_value.h"
#include "autograd/tape.h"
#include "autograd/uses_composite_normalization.h"

namespace moonlet {

using formulas::widened;

Tensor layer_norm_composite(const Tensor& x, const Dims& normalized_shape, const Tensor& weight,
                            const Tensor& bias, double eps) {
  return std::get<0>(native_layer_norm(x, normalized_shape, weight, bias, eps));
}

namespace {
Tensor per_channel(const char* op, const char* name, const Tensor& v, const Tensor& x) {
  check(v.dim() == 1 && v.size(0) == x.size(1), op, ": ", name, " has shape ", v.sizes(), ", (",
        x.size(1), ",) is expected");
  Dims sizes = Dims::filled(x.dim(), 1);
  sizes[1] = v.size(0);
  return reshape(v, sizes);
}
}  // namespace

namespace {
// Statistics that change in place cannot take those of each sample unless they are of each sample.
void check_running(const char* op, const char* name, const Tensor& running, const Tensor& x) {
  if (!running.defined() || !x.device().is_batched()) return;
  const int given = running.device().is_batched() ? running.device().levels : 0;
  check((x.device().levels & ~given) == 0, op, ": inside vmap ", name,
        ", which would be updated, is the same for all samples and x is not; keep no running "
        "statistics, or give each sample its own");
}
}  // namespace

Tensor batch_norm_composite(const Tensor& x, const Tensor& running_mean, const Tensor& running_var,
                            const Tensor& weight, const Tensor& bias, bool training,
                            double momentum, double eps) {
  if (training) {
    check_running("batch_norm", "running_mean", running_mean, x);
    check_running("batch_norm", "running_var", running_var, x);
    return std::get<0>(
        native_batch_norm(x, weight, bias, running_mean, running_var, momentum, eps));
  }
  check(x.dim() >= 2, "batch_norm: x has shape ", x.sizes(), ", (n, c, ...) is expected");
  check(running_mean.defined() && running_var.defined(),
        "batch_norm: outside training running_mean and running_var are expected");
  for (const auto& [name, t] : {std::pair{"running_mean", &running_mean},
                                {"running_var", &running_var},
                                {"weight", &weight},
                                {"bias", &bias}})
    check(!t->defined() || (t->dim() == 1 && t->size(0) == x.size(1)), "batch_norm: ", name,
          " has shape ", t->defined() ? t->sizes() : Dims(), ", (", x.size(1), ",) is expected");
  Tensor scale = rsqrt(add(widened(running_var), eps));
  if (weight.defined()) scale = mul(scale, weight);
  Tensor shift = neg(mul(running_mean, scale));
  if (bias.defined()) shift = add(shift, bias);
  const Tensor y = addcmul(per_channel("batch_norm", "running_mean", shift, x), widened(x),
                           per_channel("batch_norm", "running_var", scale, x));
  return to(y, x.dtype());
}

namespace {

// y weight + bias per channel, where they are given, in x's dtype.
Tensor scaled_channels(const char* op, Tensor y, const Tensor& weight, const Tensor& bias,
                       const Tensor& x) {
  const Tensor scale = weight.defined() ? per_channel(op, "weight", widened(weight), x) : weight;
  const Tensor shift = bias.defined() ? per_channel(op, "bias", widened(bias), x) : bias;
  if (scale.defined() && shift.defined()) return to(addcmul(shift, y, scale), x.dtype());
  if (scale.defined()) y = mul(y, scale);
  if (shift.defined()) y = add(y, shift);
  return to(y, x.dtype());
}

// x (n, c, ...) with mean 0 and variance 1 in each of `groups` groups of channels of each entry.
Tensor normalised_groups(const Tensor& x, int64_t groups, double eps) {
  if (x.numel() == 0) return x;
  const int64_t size = x.numel() / (x.size(0) * groups);
  const Tensor rows = reshape(x, {x.size(0) * groups, size});
  return reshape(layer_norm(rows, {size}, Tensor(), Tensor(), eps), x.sizes());
}

// x (n, c, ...) with mean 0 and variance 1 in each channel of each entry, times weight, plus bias:
// batch_norm of one entry with n c channels.
Tensor normalised_instances(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps) {
  const char* op = "instance_norm";
  const int64_t n = x.size(0), c = x.size(1);
  const auto repeated = [&](const char* name, const Tensor& v) {
    if (!v.defined()) return v;
    per_channel(op, name, v, x);
    return reshape(expand(v, {n, c}), {n * c});
  };
  const Tensor scale = repeated("weight", weight), shift = repeated("bias", bias);
  if (x.numel() == 0) return scaled_channels(op, clone(x), weight, bias, x);
  const Tensor channels = reshape(x, {1, n * c, x.numel() / (n * c)});
  const Tensor y =
      std::get<0>(native_batch_norm(channels, scale, shift, Tensor(), Tensor(), 0.0, eps));
  return reshape(y, x.sizes());
}

// Moves a running statistic towards the mean over the entries of `each` (n, c).
void follow(const Tensor& running, const Tensor& each, double momentum) {
  if (!running.defined()) return;
  const NoGrad no_grad;
  Tensor target = shallow_copy(running);
  mul_(target, 1 - momentum);
  add_(target, mul(mean(each, {0}), momentum));
}

}  // namespace

Tensor group_norm_composite(const Tensor& x, int64_t num_groups, const Tensor& weight,
                            const Tensor& bias, double eps) {
  const char* op = "group_norm";
  check(x.dim() >= 2, op, ": x has shape ", x.sizes(), ", (n, c, ...) is expected");
  check(num_groups >= 1 && x.size(1) % num_groups == 0, op, ": ", x.size(1), " channels make no ",
        num_groups, " groups");
  // A device counts the elements of an entry in 32 bits.
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  if (x.numel() > 0 && (x.device().real().is_cpu() || x.numel() / x.size(0) < kMost))
    return std::get<0>(native_group_norm(x, num_groups, weight, bias, eps));
  return scaled_channels(op, normalised_groups(widened(x), num_groups, eps), weight, bias, x);
}

Tensor instance_norm_composite(const Tensor& x, const Tensor& running_mean,
                               const Tensor& running_var, const Tensor& weight, const Tensor& bias,
                               bool use_input_stats, double momentum, double eps) {
  const char* op = "instance_norm";
  if (!use_input_stats)
    return batch_norm(x, running_mean, running_var, weight, bias, false, momentum, eps);
  check(x.dim() >= 2, op, ": x has shape ", x.sizes(), ", (n, c, ...) is expected");
  const Tensor y = normalised_instances(x, weight, bias, eps);
  if (x.numel() == 0 || !(running_mean.defined() || running_var.defined())) return y;
  for (const auto& [running, name] :
       {std::pair{&running_mean, "running_mean"}, std::pair{&running_var, "running_var"}})
    if (running->defined()) {
      per_channel(op, name, *running, x);
      check_running(op, name, *running, x);
    }
  const NoGrad no_grad;
  const Tensor each =
      reshape(widened(x), {x.size(0), x.size(1), x.numel() / (x.size(0) * x.size(1))});
  follow(running_mean, mean(each, {2}), momentum);
  follow(running_var, var(each, {2}, 1), momentum);
  return y;
}

namespace {
// Whether squares of x's elements, whose means or sums are given, are too large for its dtype, and
// so have to be made of float64. A device is not asked.
bool is_out_of_range(const Tensor& squares) {
  if (squares.dtype() == DType::Float64 || !has_values(squares) || !squares.device().is_cpu())
    return false;
  const NoGrad no_grad;
  return !host_value<bool>(all(isfinite(squares)));
}
}  // namespace

Tensor rms_norm_composite(const Tensor& x, const Dims& normalized_shape, const Tensor& weight,
                          std::optional<double> eps) {
  const DType compute = compute_dtype(x.dtype());
  const double least = compute == DType::Float64 ? std::numeric_limits<double>::epsilon()
                                                 : std::numeric_limits<float>::epsilon();
  const bool other = weight.defined() && weight.dtype() != x.dtype();
  return std::get<0>(native_rms_norm(x, normalized_shape, other ? to(weight, compute) : weight,
                                     eps.value_or(least)));
}

Tensor local_response_norm_composite(const Tensor& given, int64_t size, double alpha, double beta,
                                     double k) {
  const char* op = "local_response_norm";
  check(given.dim() >= 3, op, ": x has shape ", given.sizes(), ", (n, c, l, ...) is expected");
  check(size >= 1 && size <= (int64_t{1} << 31), op, ": size is ", size,
        ", at least 1 is expected");
  const DType dtype = is_differentiable(given.dtype()) ? given.dtype() : execution.default_dtype;
  if (given.numel() == 0) return to(given, dtype);
  Tensor x = widened(to(given, dtype));
  // Channels further away than there are any hold zeros.
  const int64_t before = std::min(size / 2, x.size(1)), after = std::min((size - 1) / 2, x.size(1));
  std::vector<int64_t> border(static_cast<size_t>(2 * (x.dim() - 1)), 0);
  border[border.size() - 2] = before;
  border[border.size() - 1] = after;
  const auto window_sums = [&] {
    return sum(unfold(pad(square(x), border), 1, before + after + 1, 1), {x.dim()});
  };
  Tensor sums = window_sums();
  if (is_out_of_range(sums)) {
    x = to(x, DType::Float64);
    sums = window_sums();
  }
  const Tensor scale = pow(add(mul(sums, alpha / static_cast<double>(size)), k), beta);
  return to(div(x, scale), dtype);
}

Tensor normalize_composite(const Tensor& x, double p, int64_t dim, double eps) {
  const int d = wrap_dim(dim, x.dim(), "normalize");
  return div(x, maximum(norm(x, p, {d}, true), eps));
}

}  // namespace moonlet
