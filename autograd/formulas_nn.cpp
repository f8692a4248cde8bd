// autograd/formulas_nn.cpp: the longer derivatives of products and network ops.
#include "autograd/formulas_nn.h"

#include <limits>

#include "autograd/formulas_convert.h"
#include "autograd/ops_arithmetic.h"
#include "autograd/ops_clone.h"
#include "autograd/ops_compare.h"
#include "autograd/ops_complex.h"
#include "autograd/ops_create.h"
#include "autograd/ops_linalg.h"
#include "autograd/ops_logic.h"
#include "autograd/ops_math.h"
#include "autograd/ops_nn.h"
#include "autograd/ops_reduce.h"
#include "autograd/ops_shape.h"
#include "autograd/tape.h"

namespace moonlet::formulas {

Tensor conjugate(const Tensor& x) { return is_complex(x.dtype()) ? moonlet::conj(x) : x; }

Tensor adjoint(const Tensor& x) { return conjugate(transpose(x, x.dim() - 2, x.dim() - 1)); }

Tensor linear_grad_weight(const Tensor& g, const Tensor& x) {
  const int64_t out = g.size(-1), in = x.size(-1);
  int64_t rows = 1;
  for (int i = 0; i + 1 < x.dim(); ++i) rows *= x.size(i);
  const Tensor left = g.dim() == 2 ? g : reshape(g, {rows, out});
  const Tensor right = x.dim() == 2 ? x : reshape(x, {rows, in});
  return mm(transpose(left, 0, 1), conjugate(right));
}

namespace {
// All dimensions of a tensor of that rank but the second.
Dims all_but_channels(int rank) {
  Dims out;
  for (int i = 0; i < rank; ++i)
    if (i != 1) out.push_back(i);
  return out;
}

// The last `count` of `rank` dimensions.
Dims last_dims(int rank, int64_t count) {
  Dims out;
  for (int64_t i = rank - count; i < rank; ++i) out.push_back(i);
  return out;
}
}  // namespace

Tensor channel_sum(const Tensor& x) { return sum(x, all_but_channels(x.dim()), false, {}); }

Dims plane_of(const Dims& sizes) { return {sizes[sizes.size() - 2], sizes.back()}; }

namespace {
// masked_fill of a result that nobody else has: over itself unless that had to be recorded.
Tensor filled(Tensor x, const Tensor& mask, double value) {
  return grad_enabled() ? masked_fill(x, mask, value) : masked_fill_(x, mask, value);
}

Tensor swapped(const Tensor& x) { return transpose(x, x.dim() - 2, x.dim() - 1); }
}  // namespace

Tensor attention_weights(const Tensor& given_query, const Tensor& given_key,
                         const Tensor& given_mask, bool is_causal, double scale) {
  const Tensor query = widened(given_query), key = widened(given_key), mask = widened(given_mask);
  Tensor scores = matmul(mul(query, scale), swapped(key));
  const double hidden = -std::numeric_limits<double>::infinity();
  if (is_causal) {
    const Dims square{query.size(-2), key.size(-2)};
    const Tensor seen = tril(ones(square, Options{DType::Bool, query.device()}), 0);
    scores = filled(scores, logical_not(seen), hidden);
  }
  if (!mask.defined()) return softmax(scores, scores.dim() - 1);
  scores =
      mask.dtype() == DType::Bool ? filled(scores, logical_not(mask), hidden) : add(scores, mask);
  const Tensor blind = all(eq(scores, hidden), {scores.dim() - 1}, true);
  scores = filled(scores, blind, 0.0);
  return filled(softmax(scores, scores.dim() - 1), blind, 0.0);
}

std::tuple<Tensor, Tensor, Tensor, Tensor> attention_grads(
    const Tensor& given_g, const Tensor& given_query, const Tensor& given_key,
    const Tensor& given_value, const Tensor& mask, bool is_causal, double scale) {
  // Each is in two products, which would otherwise copy it twice.
  const Tensor g = contiguous(widened(given_g)), query = contiguous(widened(given_query)),
               key = contiguous(widened(given_key)), value = widened(given_value);
  Tensor weights = attention_weights(query, key, mask, is_causal, scale);
  const Tensor grad_value = matmul(swapped(weights), g);
  Tensor grad_scores = matmul(g, swapped(value));
  // The values may have more entries in their batch than the weights.
  if (!(weights.sizes() == grad_scores.sizes())) weights = expand(weights, grad_scores.sizes());
  grad_scores = softmax_grad_x(grad_scores, weights, weights.dim() - 1);
  const bool added = mask.defined() && mask.dtype() != DType::Bool;
  return {mul(matmul(grad_scores, key), scale), mul(matmul(swapped(grad_scores), query), scale),
          grad_value, added ? grad_scores : Tensor()};
}

Tensor softmax_grad_x_grad_result(const Tensor& g, const Tensor& grad, const Tensor& result,
                                  int64_t dim) {
  // L = <g, r (grad - <grad, r>)>
  const Tensor inner = sum(mul(grad, result), {dim}, true, {});
  const Tensor outer = sum(mul(g, result), {dim}, true, {});
  return sub(mul(g, sub(grad, inner)), mul(grad, outer));
}

std::tuple<Tensor, Tensor> log_softmax_grad_x_grads(const Tensor& g, const Tensor& grad,
                                                    const Tensor& result, int64_t dim) {
  // L = <g, grad - exp(r) sum(grad)>
  const Tensor weighted = mul(g, exp(result));
  return {sub(g, sum(weighted, {dim}, true, {})), neg(mul(weighted, sum(grad, {dim}, true, {})))};
}

namespace {
Tensor mean_over(const Tensor& x, const Dims& dims) { return mean(x, dims, true, {}); }

// With P(u) = rstd (u - m(u) - xh m(u xh)), the symmetric map that takes a gradient of the
// normalised xh to one of x, and a = grad * weight, L = <v, P(a)>. This is L's gradient with
// respect to x: P(u) for the part of L through xh, u = -rstd (a m(v xh) + v m(a xh)), and the part
// through rstd. `project` computes P. The statistics are made anew from x, so that they are
// differentiated in turn.
template <class Project>
Tensor norm_second_grad(const Tensor& v, const Tensor& a, const Tensor& x, const Dims& dims,
                        double eps, Project&& project) {
  const Tensor centred = sub(x, mean_over(x, dims));
  const Tensor rstd = rsqrt(add(mean_over(mul(centred, centred), dims), eps));
  const Tensor xh = mul(centred, rstd);
  const Tensor m_vx = mean_over(mul(v, xh), dims), m_ax = mean_over(mul(a, xh), dims);
  const Tensor u = neg(mul(rstd, add(mul(a, m_vx), mul(v, m_ax))));
  const Tensor rest =
      sub(sub(mean_over(mul(a, v), dims), mul(mean_over(a, dims), mean_over(v, dims))),
          mul(m_ax, m_vx));
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
          norm_second_grad(g, a, x, last_dims(x.dim(), dims), eps, project),
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
          norm_second_grad(g, a, x, all_but_channels(x.dim()), eps, project),
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

}  // namespace moonlet::formulas
