// autograd/formulas/nn.cpp: the longer derivatives of network ops.
#include "autograd/formulas.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "autograd/formulas/common.h"
#include "autograd/forward_mode.h"
#include "autograd/tape.h"
#include "autograd/uses_formulas_nn.h"

namespace moonlet::formulas {

namespace {
// masked_fill of a result that nobody else has: over itself unless that had to be recorded.
Tensor filled(Tensor x, const Tensor& mask, double value) {
  return derivatives_wanted() ? masked_fill(x, mask, value) : masked_fill_(x, mask, value);
}

Tensor swapped(const Tensor& x) { return transpose(x, x.dim() - 2, x.dim() - 1); }
}  // namespace

namespace {

// The part [first, first + count) of the queries, and what of the mask and the keys it may see.
struct Chunk {
  int64_t first, count, keys;
};

// The elements of scores that are held at a time: 16 MiB of float32.
constexpr int64_t kScores = int64_t{1} << 22;
constexpr int64_t kLeastQueries = 16;
// With is_causal fewer queries at a time see fewer keys that are hidden from them.
constexpr int64_t kMostCausal = 128;

// The queries in parts whose scores are no more than kScores, so that memory grows with the length
// and not with its square. With is_causal a part sees the keys up to its last query.
std::vector<Chunk> chunks_of(const Tensor& query, const Tensor& key, bool is_causal) {
  const int64_t queries = query.size(-2), keys = key.size(-2);
  const auto heads = [](const Tensor& x) {
    return x.numel() / std::max<int64_t>(x.size(-1) * x.size(-2), 1);
  };
  const int64_t batch = std::max<int64_t>({heads(query), heads(key), 1});
  const int64_t fitting = kScores / std::max<int64_t>(batch * keys, 1);
  const int64_t step =
      std::max(kLeastQueries, is_causal ? std::min(fitting, kMostCausal) : fitting);
  std::vector<Chunk> out;
  for (int64_t first = 0; first == 0 || first < queries; first += step) {
    const int64_t count = std::min(step, queries - first);
    out.push_back({first, count, is_causal ? std::min(keys, first + count) : keys});
  }
  return out;
}

// Rows [first, first + count) of the dimension before the last.
Tensor rows(const Tensor& x, int64_t first, int64_t count) {
  if (first == 0 && count == x.size(-2)) return x;
  return narrow(x, x.dim() - 2, first, count);
}

// The chunk's part of a mask that broadcasts to (..., l, s).
Tensor part_of_mask(const Tensor& mask, const Chunk& c) {
  if (!mask.defined() || mask.dim() == 0) return mask;
  Tensor part = mask;
  if (part.dim() >= 2 && part.size(-2) != 1) part = rows(part, c.first, c.count);
  if (part.size(-1) != 1 && part.size(-1) != c.keys) part = narrow(part, part.dim() - 1, 0, c.keys);
  return part;
}

// softmax(query key^T + mask) for a chunk; query is scaled.
Tensor chunk_weights(const Tensor& query, const Tensor& key, const Tensor& whole_mask,
                     bool is_causal, const Chunk& c) {
  Tensor scores = matmul(rows(query, c.first, c.count), swapped(rows(key, 0, c.keys)));
  const double hidden = -std::numeric_limits<double>::infinity();
  if (is_causal) {
    const Tensor seen =
        tril(ones({c.count, c.keys}, Options{DType::Bool, query.device()}), c.first);
    scores = filled(scores, logical_not(seen), hidden);
  }
  const Tensor mask = part_of_mask(whole_mask, c);
  if (!mask.defined()) return softmax(scores, scores.dim() - 1);
  scores =
      mask.dtype() == DType::Bool ? filled(scores, logical_not(mask), hidden) : add(scores, mask);
  const Tensor blind = all(eq(scores, hidden), {scores.dim() - 1}, true);
  scores = filled(scores, blind, 0.0);
  return filled(softmax(scores, scores.dim() - 1), blind, 0.0);
}

// Gradients of the keys seen so far, added up: `part` has the first positions alone.
void add_rows(Tensor& total, const Tensor& part, int64_t length) {
  const int64_t missing = length - part.size(-2);
  const Tensor whole = missing == 0 ? part : constant_pad(part, {0, 0, 0, missing}, 0.0);
  total = total.defined() ? add(total, whole) : whole;
}

}  // namespace

Tensor attention_weights(const Tensor& query, const Tensor& key, const Tensor& mask, bool is_causal,
                         double scale) {
  const Chunk all_queries{0, query.size(-2), key.size(-2)};
  return chunk_weights(mul(widened(query), scale), widened(key), widened(mask), is_causal,
                       all_queries);
}

Tensor attention(const Tensor& given_query, const Tensor& given_key, const Tensor& given_value,
                 const Tensor& given_mask, bool is_causal, double scale) {
  const Tensor query = mul(widened(given_query), scale), key = widened(given_key),
               value = widened(given_value), mask = widened(given_mask);
  std::vector<Tensor> parts;
  for (const Chunk& c : chunks_of(query, key, is_causal))
    parts.push_back(matmul(chunk_weights(query, key, mask, is_causal, c), rows(value, 0, c.keys)));
  return to(parts.size() == 1 ? parts[0] : cat(parts, parts[0].dim() - 2), given_query.dtype());
}

namespace {

// What a chunk's weights are multiplied by; undefined without dropout.
Tensor chunk_dropout(const AttentionDropout& dropout, const Tensor& key, DType dtype,
                     const Chunk& c) {
  if (!dropout.states.defined()) return {};
  return dropout_rows(dropout.states, dropout.p, c.first, c.count, c.keys, key.size(-2), dtype);
}

// The weights of a chunk, as the values are multiplied by them, and the gradient of its scores for
// the gradient `gradient` of its results.
std::tuple<Tensor, Tensor> chunk_grads(const Tensor& gradient, const Tensor& query,
                                       const Tensor& key, const Tensor& value, const Tensor& mask,
                                       bool is_causal, const AttentionDropout& dropout,
                                       const Chunk& c) {
  Tensor weights = chunk_weights(query, key, mask, is_causal, c);
  Tensor by_weights = matmul(gradient, swapped(rows(value, 0, c.keys)));
  const Tensor stays = chunk_dropout(dropout, key, weights.dtype(), c);
  if (stays.defined()) by_weights = mul(by_weights, stays);
  // The values may have more entries in their batch than the weights.
  if (!(weights.sizes() == by_weights.sizes())) weights = expand(weights, by_weights.sizes());
  return {stays.defined() ? mul(weights, stays) : weights,
          softmax_grad_x(by_weights, weights, weights.dim() - 1)};
}

Tensor joined(const std::vector<Tensor>& parts) {
  return parts.size() == 1 ? parts[0] : cat(parts, parts[0].dim() - 2);
}

}  // namespace

std::tuple<Tensor, Tensor, Tensor> attention_grads(const Tensor& given_g, const Tensor& given_query,
                                                   const Tensor& given_key,
                                                   const Tensor& given_value,
                                                   const Tensor& given_mask, bool is_causal,
                                                   double scale, const AttentionDropout& dropout) {
  // Each is in two products, which would otherwise copy it twice.
  const Tensor g = contiguous(widened(given_g)),
               query = contiguous(mul(widened(given_query), scale)),
               key = contiguous(widened(given_key)), value = widened(given_value),
               mask = widened(given_mask);
  std::vector<Tensor> by_query;
  Tensor by_key, by_value;
  for (const Chunk& c : chunks_of(query, key, is_causal)) {
    const Tensor gradient = rows(g, c.first, c.count);
    const auto [weights, by_scores] =
        chunk_grads(gradient, query, key, value, mask, is_causal, dropout, c);
    add_rows(by_value, matmul(swapped(weights), gradient), key.size(-2));
    by_query.push_back(mul(matmul(by_scores, rows(key, 0, c.keys)), scale));
    add_rows(by_key, matmul(swapped(by_scores), rows(query, c.first, c.count)), key.size(-2));
  }
  return {joined(by_query), by_key, by_value};
}

std::tuple<Tensor, Tensor, Tensor> flash_grads(const Tensor& g, const Tensor& query,
                                               const Tensor& key, const Tensor& value,
                                               const Tensor& mask, const Tensor& y,
                                               const Tensor& logsumexp, bool is_causal,
                                               double scale, const AttentionDropout& dropout) {
  if (derivatives_wanted())
    return attention_grads(g, query, key, value, mask, is_causal, scale, dropout);
  return flash_attention_grads(g, query, key, value, mask, y, logsumexp, is_causal, scale,
                               dropout.p, dropout.states);
}

Tensor attention_grad_mask(const Tensor& given_g, const Tensor& given_query,
                           const Tensor& given_key, const Tensor& given_value,
                           const Tensor& given_mask, bool is_causal, double scale,
                           const AttentionDropout& dropout) {
  const Tensor g = widened(given_g), query = mul(widened(given_query), scale),
               key = widened(given_key), value = widened(given_value), mask = widened(given_mask);
  std::vector<Tensor> by_mask;
  for (const Chunk& c : chunks_of(query, key, is_causal)) {
    const Tensor part = std::get<1>(
        chunk_grads(rows(g, c.first, c.count), query, key, value, mask, is_causal, dropout, c));
    const int64_t unseen = key.size(-2) - c.keys;
    by_mask.push_back(unseen == 0 ? part : constant_pad(part, {0, unseen}, 0.0));
  }
  return joined(by_mask);
}

}  // namespace moonlet::formulas
