// autograd/formulas/nn.cpp: the longer derivatives of network ops.
#include "autograd/formulas/nn.h"

#include <limits>

#include "autograd/formulas/common.h"
#include "autograd/tape.h"
#include "autograd/uses_formulas_nn.h"

namespace moonlet::formulas {

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

}  // namespace moonlet::formulas
