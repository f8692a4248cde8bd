// tensor/shapes/normalization.cpp: argument checks and result shapes of layer_norm, rms_norm,
// batch_norm and group_norm.
#include "tensor/shapes/window.h"
#include "tensor/shapes_normalization.h"

namespace moonlet::shapes {

namespace {
// Throws unless t, where given, is of x's dtype, or of float32 beside 16-bit floats.
void check_precision(const char* op, const char* argument, const Tensor& t, const Tensor& x) {
  if (!t.defined() || t.dtype() == x.dtype()) return;
  const bool narrow = is_reduced_floating(x.dtype());
  check(narrow && t.dtype() == DType::Float32, op, ": ", argument, " is ", t.dtype(), " and x ",
        x.dtype(), "; ", x.dtype(), narrow ? " or float32" : "", " is expected");
}

// Means are kept in float64: what a float32 cannot hold of a large one matters beside a small
// deviation.
Options statistics_of(const Tensor& x) { return {DType::Float64, x.device()}; }

// x's sizes with the last `dims` of them 1.
Dims layer_norm_stats(const char* op, const Tensor& x, int64_t dims) {
  check(dims >= 1 && dims <= x.dim(), op, ": ", dims, " dimensions of ", x.sizes());
  Dims out = x.sizes();
  for (int64_t i = out.size() - dims; i < out.size(); ++i) out[static_cast<int>(i)] = 1;
  return out;
}

void check_normalized(const char* op, const Tensor& x, const Dims& normalized_shape) {
  const int dims = normalized_shape.size();
  bool fits = dims >= 1 && dims <= x.dim();
  for (int i = 0; fits && i < dims; ++i) fits = x.size(x.dim() - dims + i) == normalized_shape[i];
  check(fits, op, ": x has shape ", x.sizes(), ", which does not end in ", normalized_shape);
}

void check_normalized_weight(const char* op, const char* argument, const Tensor& t, const Tensor& x,
                             const Dims& normalized_shape) {
  if (!t.defined()) return;
  check_shape(op, argument, t.sizes(), normalized_shape);
  check_precision(op, argument, t, x);
}

// The sizes of the weight, after checking the arguments of a gradient of layer_norm, or of
// rms_norm, which has no mean.
Dims layer_norm_grad(const char* op, const Tensor& grad, const Tensor& x, const Tensor& mean,
                     const Tensor& rstd, int64_t dims) {
  check_same_shape(op, grad, x);
  check_precision(op, "grad", grad, x);
  const Dims stats = layer_norm_stats(op, x, dims);
  if (mean.defined()) check_shape(op, "mean", mean.sizes(), stats);
  check_shape(op, "rstd", rstd.sizes(), stats);
  return {x.sizes().data() + x.dim() - dims, static_cast<int>(dims)};
}
}  // namespace

std::array<Result, 3> native_layer_norm(const Tensor& x, const Dims& normalized_shape,
                                        const Tensor& weight, const Tensor& bias, double) {
  const char* op = "layer_norm";
  check_normalized(op, x, normalized_shape);
  check_normalized_weight(op, "weight", weight, x, normalized_shape);
  check_normalized_weight(op, "bias", bias, x, normalized_shape);
  const Result stats{layer_norm_stats(op, x, normalized_shape.size()), statistics_of(x)};
  return {like(x), stats, stats};
}

Result layer_norm_grad_x(const Tensor& grad, const Tensor& x, const Tensor& mean,
                         const Tensor& rstd, const Tensor& weight, int64_t dims, double) {
  const char* op = "layer_norm_grad_x";
  const Dims normalized = layer_norm_grad(op, grad, x, mean, rstd, dims);
  check_normalized_weight(op, "weight", weight, x, normalized);
  return like(x);
}

Result layer_norm_grad_weight(const Tensor& grad, const Tensor& x, const Tensor& mean,
                              const Tensor& rstd, int64_t dims, double) {
  return {layer_norm_grad("layer_norm_grad_weight", grad, x, mean, rstd, dims), options_of(x)};
}

std::array<Result, 3> layer_norm_grads(const Tensor& grad, const Tensor& x, const Tensor& mean,
                                       const Tensor& rstd, const Tensor& weight, int64_t dims) {
  const char* op = "layer_norm_grads";
  const Dims normalized = layer_norm_grad(op, grad, x, mean, rstd, dims);
  check_normalized_weight(op, "weight", weight, x, normalized);
  const Result values{normalized, options_of(weight.defined() ? weight : x)};
  return {like(x), values, values};
}

std::array<Result, 2> native_rms_norm(const Tensor& x, const Dims& normalized_shape,
                                      const Tensor& weight, double) {
  const char* op = "rms_norm";
  check_normalized(op, x, normalized_shape);
  check_normalized_weight(op, "weight", weight, x, normalized_shape);
  return {like(x), Result{layer_norm_stats(op, x, normalized_shape.size()), statistics_of(x)}};
}

Result rms_norm_grad_x(const Tensor& grad, const Tensor& x, const Tensor& rstd,
                       const Tensor& weight, int64_t dims, double) {
  const char* op = "rms_norm_grad_x";
  check_normalized_weight(op, "weight", weight, x,
                          layer_norm_grad(op, grad, x, Tensor(), rstd, dims));
  return like(x);
}

Result rms_norm_grad_weight(const Tensor& grad, const Tensor& x, const Tensor& rstd, int64_t dims,
                            double) {
  return {layer_norm_grad("rms_norm_grad_weight", grad, x, Tensor(), rstd, dims), options_of(x)};
}

std::array<Result, 2> rms_norm_grads(const Tensor& grad, const Tensor& x, const Tensor& rstd,
                                     const Tensor& weight, int64_t dims) {
  const char* op = "rms_norm_grads";
  const Dims normalized = layer_norm_grad(op, grad, x, Tensor(), rstd, dims);
  check_normalized_weight(op, "weight", weight, x, normalized);
  return {like(x), Result{normalized, options_of(weight.defined() ? weight : x)}};
}

namespace {
void check_channels(const char* op, const char* argument, const Tensor& t, const Tensor& x) {
  if (!t.defined()) return;
  check(t.dim() == 1 && t.size(0) == x.size(1), op, ": ", argument, " has shape ", t.sizes(), ", (",
        x.size(1), ",) is expected");
  check_precision(op, argument, t, x);
}

// (1, c, 1, ...)
Dims batch_norm_stats(const char* op, const Tensor& x) {
  check(x.dim() >= 2, op, ": x has shape ", x.sizes(), ", (n, c, ...) is expected");
  Dims out = Dims::filled(x.dim(), 1);
  out[1] = x.size(1);
  return out;
}

void batch_norm_grad(const char* op, const Tensor& grad, const Tensor& x, const Tensor& mean,
                     const Tensor& rstd) {
  check_same_shape(op, grad, x);
  check_precision(op, "grad", grad, x);
  const Dims stats = batch_norm_stats(op, x);
  check_shape(op, "mean", mean.sizes(), stats);
  check_shape(op, "rstd", rstd.sizes(), stats);
}
}  // namespace

std::array<Result, 3> native_batch_norm(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                        const Tensor& running_mean, const Tensor& running_var,
                                        double, double) {
  const char* op = "batch_norm";
  const Result stats{batch_norm_stats(op, x), statistics_of(x)};
  check_channels(op, "weight", weight, x);
  check_channels(op, "bias", bias, x);
  check_channels(op, "running_mean", running_mean, x);
  check_channels(op, "running_var", running_var, x);
  check(x.numel() == 0 || x.numel() / x.size(1) > 1, op,
        ": more than one value per channel is expected in training, x has shape ", x.sizes());
  return {images(op, x.sizes(), x), stats, stats};
}

Result batch_norm_grad_x(const Tensor& grad, const Tensor& x, const Tensor& mean,
                         const Tensor& rstd, const Tensor& weight, double) {
  batch_norm_grad("batch_norm_grad_x", grad, x, mean, rstd);
  check_channels("batch_norm_grad_x", "weight", weight, x);
  return images("batch_norm_grad_x", x.sizes(), x);
}

Result batch_norm_grad_weight(const Tensor& grad, const Tensor& x, const Tensor& mean,
                              const Tensor& rstd, double) {
  batch_norm_grad("batch_norm_grad_weight", grad, x, mean, rstd);
  return {{x.size(1)}, options_of(x)};
}

std::array<Result, 3> batch_norm_grads(const Tensor& grad, const Tensor& x, const Tensor& mean,
                                       const Tensor& rstd, const Tensor& weight) {
  const char* op = "batch_norm_grads";
  batch_norm_grad(op, grad, x, mean, rstd);
  check_channels(op, "weight", weight, x);
  const Result values{{x.size(1)}, options_of(x)};
  return {images(op, x.sizes(), x), values, values};
}

namespace {
// (n, groups), after checking that x's channels make groups.
Dims group_norm_stats(const char* op, const Tensor& x, int64_t groups) {
  check(x.dim() >= 2, op, ": x has shape ", x.sizes(), ", (n, c, ...) is expected");
  check(groups >= 1 && x.size(1) % groups == 0, op, ": ", x.size(1), " channels make no ", groups,
        " groups");
  return {x.size(0), groups};
}

void check_group_norm_weight(const char* op, const char* argument, const Tensor& t,
                             const Tensor& x) {
  if (!t.defined()) return;
  check_shape(op, argument, t.sizes(), {x.size(1)});
  check_precision(op, argument, t, x);
}

void group_norm_grad(const char* op, const Tensor& grad, const Tensor& x, const Tensor& mean,
                     const Tensor& rstd, int64_t groups) {
  check_same_shape(op, grad, x);
  check_precision(op, "grad", grad, x);
  const Dims stats = group_norm_stats(op, x, groups);
  check_shape(op, "mean", mean.sizes(), stats);
  check_shape(op, "rstd", rstd.sizes(), stats);
}
}  // namespace

std::array<Result, 3> native_group_norm(const Tensor& x, int64_t num_groups, const Tensor& weight,
                                        const Tensor& bias, double) {
  const char* op = "group_norm";
  const Dims sizes = group_norm_stats(op, x, num_groups);
  check_group_norm_weight(op, "weight", weight, x);
  check_group_norm_weight(op, "bias", bias, x);
  const Result stats{sizes, statistics_of(x)};
  return {Result{x.sizes(), options_of(x)}, stats, stats};
}

Result group_norm_grad_x(const Tensor& grad, const Tensor& x, const Tensor& mean,
                         const Tensor& rstd, const Tensor& weight, int64_t num_groups, double) {
  const char* op = "group_norm_grad_x";
  group_norm_grad(op, grad, x, mean, rstd, num_groups);
  check_group_norm_weight(op, "weight", weight, x);
  return {x.sizes(), options_of(x)};
}

Result group_norm_grad_weight(const Tensor& grad, const Tensor& x, const Tensor& mean,
                              const Tensor& rstd, int64_t num_groups, double) {
  group_norm_grad("group_norm_grad_weight", grad, x, mean, rstd, num_groups);
  return {{x.size(1)}, options_of(x)};
}

std::array<Result, 3> group_norm_grads(const Tensor& grad, const Tensor& x, const Tensor& mean,
                                       const Tensor& rstd, const Tensor& weight,
                                       int64_t num_groups) {
  const char* op = "group_norm_grads";
  group_norm_grad(op, grad, x, mean, rstd, num_groups);
  check_group_norm_weight(op, "weight", weight, x);
  const Result values{{x.size(1)}, options_of(x)};
  return {Result{x.sizes(), options_of(x)}, values, values};
}

}  // namespace moonlet::shapes
