// autograd/formulas/normalization.cpp: the gradients of normalisation and their
// derivatives.
#include "autograd/formulas.h"

#include "autograd/formulas/common.h"
#include "autograd/forward_mode.h"
#include "autograd/tape.h"
#include "autograd/uses_formulas_normalization.h"

namespace moonlet::formulas {

namespace {
// The last `count` of `rank` dimensions.
Dims last_dims(int rank, int64_t count) {
  Dims out;
  for (int64_t i = rank - count; i < rank; ++i) out.push_back(i);
  return out;
}
Tensor mean_over(const Tensor& x, const Dims& dims) { return mean(x, dims, true, {}); }

// With P(u) = rstd (u - m(u) - xh m(u xh)), the symmetric map that takes a gradient of the
// normalised xh to one of x, and a = grad * weight, L = <v, P(a)>. This is L's gradient with
// respect to x: P(u) for the part of L through xh, u = -rstd (a m(v xh) + v m(a xh)), and the part
// through rstd. `project` computes P. The statistics are made anew from x, so that they are
// differentiated in turn. What is not `centred`, as rms_norm, has no terms of means alone.
template <class Project>
Tensor norm_second_grad(const Tensor& v, const Tensor& a, const Tensor& x, const Dims& dims,
                        double eps, bool centred, Project&& project) {
  Tensor about = x;
  if (centred) {
    about = sub(x, mean_over(x, dims));
    about = sub(about, mean_over(about, dims));  // a large mean is rounded
  }
  const Tensor rstd = rsqrt(add(mean_over(mul(about, about), dims), eps));
  const Tensor xh = mul(about, rstd);
  const Tensor m_vx = mean_over(mul(v, xh), dims), m_ax = mean_over(mul(a, xh), dims);
  const Tensor u = neg(mul(rstd, add(mul(a, m_vx), mul(v, m_ax))));
  Tensor products = mean_over(mul(a, v), dims);
  if (centred) products = sub(products, mul(mean_over(a, dims), mean_over(v, dims)));
  const Tensor rest = sub(products, mul(m_ax, m_vx));
  return sub(project(u), mul(mul(xh, mul(rstd, rstd)), rest));
}
}  // namespace

std::tuple<Tensor, Tensor, Tensor> layer_norm_grad_x_grads(const Tensor& g, const Tensor& grad,
                                                           const Tensor& x, const Tensor& mean,
                                                           const Tensor& rstd, const Tensor& weight,
                                                           int64_t dims, double eps) {
  const auto project = [&](const Tensor& u) {
    return layer_norm_grad_x(u, x, mean, rstd, Tensor(), dims, eps);
  };
  const Tensor back = project(g);
  const Tensor a = weight.defined() ? mul(grad, weight) : grad;
  return {weight.defined() ? mul(back, weight) : back,
          norm_second_grad(g, a, x, last_dims(x.dim(), dims), eps, true, project),
          weight.defined() ? mul(back, grad) : Tensor()};
}

std::tuple<Tensor, Tensor> layer_norm_grad_weight_grads(const Tensor& g, const Tensor& grad,
                                                        const Tensor& x, const Tensor& mean,
                                                        const Tensor& rstd, int64_t dims,
                                                        double eps) {
  const Dims shape(x.sizes().data() + x.dim() - dims, static_cast<int>(dims));
  const Tensor normal = std::get<0>(native_layer_norm(x, shape, Tensor(), Tensor(), eps));
  return {mul(normal, g), layer_norm_grad_x(mul(grad, g), x, mean, rstd, Tensor(), dims, eps)};
}

std::tuple<Tensor, Tensor, Tensor> rms_norm_grad_x_grads(const Tensor& g, const Tensor& grad,
                                                         const Tensor& x, const Tensor& rstd,
                                                         const Tensor& weight, int64_t dims,
                                                         double eps) {
  const auto project = [&](const Tensor& u) {
    return rms_norm_grad_x(u, x, rstd, Tensor(), dims, eps);
  };
  const Tensor back = project(g);
  const Tensor a = weight.defined() ? mul(grad, weight) : grad;
  return {weight.defined() ? mul(back, weight) : back,
          norm_second_grad(g, a, x, last_dims(x.dim(), dims), eps, false, project),
          weight.defined() ? mul(back, grad) : Tensor()};
}

std::tuple<Tensor, Tensor> rms_norm_grad_weight_grads(const Tensor& g, const Tensor& grad,
                                                      const Tensor& x, const Tensor& rstd,
                                                      int64_t dims, double eps) {
  const Dims shape(x.sizes().data() + x.dim() - dims, static_cast<int>(dims));
  const Tensor normal = std::get<0>(native_rms_norm(x, shape, Tensor(), eps));
  return {mul(normal, g), rms_norm_grad_x(mul(grad, g), x, rstd, Tensor(), dims, eps)};
}

namespace {
// (c) as (1, c, 1, ...), to multiply a tensor of that rank.
Tensor per_channel(const Tensor& v, int rank) {
  Dims sizes = Dims::filled(rank, 1);
  sizes[1] = v.size(0);
  return reshape(v, sizes);
}
}  // namespace

std::tuple<Tensor, Tensor, Tensor> batch_norm_grad_x_grads(const Tensor& g, const Tensor& grad,
                                                           const Tensor& x, const Tensor& mean,
                                                           const Tensor& rstd, const Tensor& weight,
                                                           double eps) {
  const auto project = [&](const Tensor& u) {
    return batch_norm_grad_x(u, x, mean, rstd, Tensor(), eps);
  };
  const Tensor back = project(g);
  const Tensor wide = weight.defined() ? per_channel(weight, x.dim()) : weight;
  const Tensor a = weight.defined() ? mul(grad, wide) : grad;
  return {weight.defined() ? mul(back, wide) : back,
          norm_second_grad(g, a, x, all_but_channels(x.dim()), eps, true, project),
          weight.defined() ? channel_sum(mul(back, grad)) : Tensor()};
}

std::tuple<Tensor, Tensor> batch_norm_grad_weight_grads(const Tensor& g, const Tensor& grad,
                                                        const Tensor& x, const Tensor& mean,
                                                        const Tensor& rstd, double eps) {
  const Tensor wide = per_channel(g, x.dim());
  const Tensor normal =
      std::get<0>(native_batch_norm(x, Tensor(), Tensor(), Tensor(), Tensor(), 0.0, eps));
  return {mul(normal, wide), batch_norm_grad_x(mul(grad, wide), x, mean, rstd, Tensor(), eps)};
}

namespace {
// A tensor as rows, of the elements of a group each.
Tensor group_rows(const Tensor& x, int64_t groups) {
  const int64_t rows = x.size(0) * groups;
  return reshape(x, {rows, rows == 0 ? 0 : x.numel() / rows});
}
}  // namespace

// group_norm is layer_norm of rows, one for each group, with a weight for each channel.
std::tuple<Tensor, Tensor, Tensor> group_norm_grad_x_grads(const Tensor& g, const Tensor& grad,
                                                           const Tensor& x, const Tensor& mean,
                                                           const Tensor& rstd, const Tensor& weight,
                                                           int64_t groups, double eps) {
  const Tensor wide = weight.defined() ? per_channel(weight, x.dim()) : weight;
  const Tensor a = weight.defined() ? to(mul(grad, wide), x.dtype()) : to(grad, x.dtype());
  const Tensor m = reshape(mean, {mean.numel(), 1}), s = reshape(rstd, {rstd.numel(), 1});
  const auto [rows, second, none] = layer_norm_grad_x_grads(
      group_rows(g, groups), group_rows(a, groups), group_rows(x, groups), m, s, Tensor(), 1, eps);
  const Tensor back = reshape(rows, x.sizes());
  return {weight.defined() ? mul(back, wide) : back, reshape(second, x.sizes()),
          weight.defined() ? channel_sum(mul(back, grad)) : Tensor()};
}

std::tuple<Tensor, Tensor> group_norm_grad_weight_grads(const Tensor& g, const Tensor& grad,
                                                        const Tensor& x, const Tensor& mean,
                                                        const Tensor& rstd, int64_t groups,
                                                        double eps) {
  const Tensor wide = per_channel(g, x.dim());
  const Tensor normal = std::get<0>(native_group_norm(x, groups, Tensor(), Tensor(), eps));
  return {mul(normal, wide),
          group_norm_grad_x(mul(grad, wide), x, mean, rstd, Tensor(), groups, eps)};
}

namespace {
// By an op that the CPU alone has.
bool made_together(const Tensor& x) { return !derivatives_wanted() && x.device().real().is_cpu(); }
}  // namespace

std::tuple<Tensor, Tensor, Tensor> layer_norm_backward(const Tensor& grad, const Tensor& x,
                                                       const Tensor& mean, const Tensor& rstd,
                                                       const Tensor& weight, int64_t dims,
                                                       double eps) {
  constexpr int64_t kLongRow = 8192;  // longer ones leave the cache before they are read again
  if (made_together(x) && x.numel() <= kLongRow * mean.numel())
    return layer_norm_grads(grad, x, mean, rstd, weight, dims);
  return {layer_norm_grad_x(grad, x, mean, rstd, weight, dims, eps),
          weight.defined() ? layer_norm_grad_weight(grad, x, mean, rstd, dims, eps) : Tensor(),
          grad};
}

std::tuple<Tensor, Tensor, Tensor> batch_norm_backward(const Tensor& grad, const Tensor& x,
                                                       const Tensor& mean, const Tensor& rstd,
                                                       const Tensor& weight, double eps) {
  if (!derivatives_wanted()) return batch_norm_grads(grad, x, mean, rstd, weight);
  return {batch_norm_grad_x(grad, x, mean, rstd, weight, eps),
          weight.defined() ? batch_norm_grad_weight(grad, x, mean, rstd, eps) : Tensor(),
          channel_sum(grad)};
}

std::tuple<Tensor, Tensor, Tensor> group_norm_backward(const Tensor& grad, const Tensor& x,
                                                       const Tensor& mean, const Tensor& rstd,
                                                       const Tensor& weight, int64_t groups,
                                                       double eps) {
  constexpr int64_t kLongRun = 8;  // shorter ones are normalised with a vector of weights
  if (made_together(x) && x.numel() >= kLongRun * x.size(0) * x.size(1))
    return group_norm_grads(grad, x, mean, rstd, weight, groups);
  return {group_norm_grad_x(grad, x, mean, rstd, weight, groups, eps),
          weight.defined() ? group_norm_grad_weight(grad, x, mean, rstd, groups, eps) : Tensor(),
          channel_sum(grad)};
}

}  // namespace moonlet::formulas
