// autograd/composite/nn.cpp: network ops made of other ops: attention, dropout, gates, distances,
// bags of embeddings.
#include <cmath>
#include <vector>

#include "autograd/formulas.h"
#include "autograd/formulas/common.h"
#include "autograd/tape.h"
#include "autograd/uses_composite_nn.h"
#include "tensor/core/dispatch.h"
#include "tensor/shapes/nn.h"

namespace moonlet {

using formulas::widened;

namespace {
// How many heads of the query there are for each of x.
int64_t shared_heads(const char* name, const Tensor& x, const Tensor& query) {
  const char* op = "scaled_dot_product_attention";
  check(x.dim() >= 3 && query.dim() >= 3, op,
        ": with enable_gqa at least three dimensions are expected, ", name, " has shape ",
        x.sizes(), " and query ", query.sizes());
  const int64_t heads = x.size(-3), wanted = query.size(-3);
  check(heads > 0 && wanted % heads == 0, op, ": ", wanted, " heads of query cannot share ", heads,
        " of ", name);
  return wanted / heads;
}

// The heads (..., heads, l, e) in groups of that many; one head is a group that broadcasts.
Tensor in_groups(const Tensor& x, int64_t count) {
  if (x.dim() < 3) return x;
  return unflatten(x, -3, {x.size(-3) == 1 ? 1 : x.size(-3) / count, x.size(-3) == 1 ? 1 : count});
}

// Attention where several heads of the query share one of key and value.
Tensor grouped_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                         const Tensor& mask, double dropout_p, bool is_causal,
                         std::optional<double> scale) {
  const int64_t keys = shared_heads("key", key, query),
                values = shared_heads("value", value, query);
  if (keys != values || keys == 0)
    return scaled_dot_product_attention(query, repeat_interleave(key, keys, key.dim() - 3),
                                        repeat_interleave(value, values, value.dim() - 3), mask,
                                        dropout_p, is_causal, scale, false);
  const bool by_head = mask.defined() && mask.dim() >= 3;
  if (by_head)
    check(mask.size(-3) == 1 || mask.size(-3) == query.size(-3),
          "scaled_dot_product_attention: attn_mask has shape ", mask.sizes(), " for ",
          query.size(-3), " heads of query");
  const Tensor grouped = in_groups(query, keys), seen = by_head ? in_groups(mask, keys) : mask;
  const bool of_one = !mask.defined() || mask.dim() < 2 || mask.size(-2) == 1;
  if (query.size(-2) == 1 && of_one && !is_causal) {
    // One query of several heads is several queries of the head that they share.
    const Tensor y = scaled_dot_product_attention(flatten(grouped, -3, -2), key, value,
                                                  by_head ? flatten(seen, -3, -2) : seen, dropout_p,
                                                  false, scale, false);
    return unflatten(flatten(y, -3, -2), -2, {query.size(-3), 1});
  }
  const Tensor y = scaled_dot_product_attention(grouped, in_groups(key, 1), in_groups(value, 1),
                                                seen, dropout_p, is_causal, scale, false);
  return flatten(y, -4, -3);
}

// Whether one kernel computes attention by blocks.
bool has_blocks(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& mask) {
  const DType own = query.dtype();
  return is_floating(own) && key.dtype() == own && value.dtype() == own &&
         (!mask.defined() || mask.dtype() == DType::Bool ||
          compute_dtype(mask.dtype()) == compute_dtype(own));
}

// What dropout draws from for each entry of the batch, in results of those sizes. The tensor that
// it is drawn like belongs to no vmap, whose randomness says whether samples share the numbers.
Tensor states_of(const Tensor& query, const Tensor& key, const Dims& sizes) {
  const Dims batch(sizes.data(), sizes.size() - 2);
  const int64_t padded = (key.size(-2) + 3) / 4 * 4;
  return random_states(empty(batch, Options{DType::Bool, query.device().real()}),
                       numel_of({query.size(-2), padded}, "scaled_dot_product_attention"));
}
}  // namespace

Tensor native_attention_composite(const Tensor& query, const Tensor& key, const Tensor& value,
                                  const Tensor& attn_mask, bool is_causal, double scale) {
  shapes::attended("native_attention", query, key, value, attn_mask);
  const GradModeGuard unrecorded(false);
  // Not a view made under no_grad, as the product's result may be.
  return shallow_copy(formulas::attention(query, key, value, attn_mask, is_causal, scale));
}

Tensor scaled_dot_product_attention_composite(const Tensor& query, const Tensor& key,
                                              const Tensor& value, const Tensor& attn_mask,
                                              double dropout_p, bool is_causal,
                                              std::optional<double> scale, bool enable_gqa) {
  const char* op = "scaled_dot_product_attention";
  if (enable_gqa)
    return grouped_attention(query, key, value, attn_mask, dropout_p, is_causal, scale);
  const Dims sizes = shapes::attended(op, query, key, value, attn_mask);
  check(!is_causal || !attn_mask.defined(), op, ": is_causal and attn_mask exclude each other");
  check(dropout_p >= 0 && dropout_p <= 1, op, ": dropout_p is ", dropout_p,
        ", a probability is expected");
  const double factor = scale ? *scale : 1 / std::sqrt(static_cast<double>(query.size(-1)));
  if (has_blocks(query, key, value, attn_mask)) {
    const Tensor states = dropout_p == 0 ? Tensor() : states_of(query, key, sizes);
    return std::get<0>(
        flash_attention(query, key, value, attn_mask, is_causal, factor, dropout_p, states));
  }
  if (dropout_p == 0) return native_attention(query, key, value, attn_mask, is_causal, factor);
  const Tensor weights = formulas::attention_weights(query, key, attn_mask, is_causal, factor);
  return to(matmul(dropout(weights, dropout_p, true), widened(value)), query.dtype());
}

Tensor dropout_composite(const Tensor& x, double p, bool training) {
  check(p >= 0 && p <= 1, "dropout: p is ", p, ", a probability is expected");
  if (!training || p == 0) return x;
  return mul(x, dropout_mask(is_complex(x.dtype()) ? real(x) : x, p));
}

namespace {

// 1 where an element, or with `by_channel` a whole channel (n, c), stays.
Tensor kept(const char* op, const Tensor& x, double p, bool by_channel) {
  check(p >= 0 && p <= 1, op, ": p is ", p, ", a probability is expected");
  Dims sizes = x.sizes();
  if (by_channel) {
    check(x.dim() >= 2, op, ": x has shape ", x.sizes(), ", (n, c, ...) is expected");
    for (int i = 2; i < sizes.size(); ++i) sizes[i] = 1;
  }
  return dropout_mask(empty(sizes, {real_of(x.dtype()), x.device()}), p);
}

Tensor alpha_dropped(const char* op, const Tensor& given, double p, bool by_channel) {
  // What selu tends to at minus infinity, with its sign turned.
  constexpr double kLowest = 1.7580993408473766;
  const Tensor stays = ne(kept(op, given, p, by_channel), 0.0);
  if (p == 1) return mul(given, 0.0);
  const Tensor x = widened(given);
  const double scale = 1 / std::sqrt((kLowest * kLowest * p + 1) * (1 - p));
  const double shift = scale * kLowest * p;
  return to(where(stays, add(mul(x, scale), shift), shift - scale * kLowest), given.dtype());
}

}  // namespace

Tensor alpha_dropout_composite(const Tensor& x, double p, bool training) {
  check(p >= 0 && p <= 1, "alpha_dropout: p is ", p, ", a probability is expected");
  return !training || p == 0 ? x : alpha_dropped("alpha_dropout", x, p, false);
}

Tensor feature_alpha_dropout_composite(const Tensor& x, double p, bool training) {
  check(p >= 0 && p <= 1, "feature_alpha_dropout: p is ", p, ", a probability is expected");
  return !training || p == 0 ? x : alpha_dropped("feature_alpha_dropout", x, p, true);
}

Tensor feature_dropout_composite(const Tensor& x, double p, bool training) {
  check(p >= 0 && p <= 1, "feature_dropout: p is ", p, ", a probability is expected");
  return !training || p == 0 ? x : mul(x, kept("feature_dropout", x, p, true));
}

Tensor gumbel_softmax_composite(const Tensor& logits, double tau, bool hard, int64_t dim) {
  const char* op = "gumbel_softmax";
  const int d = wrap_dim(dim, logits.dim(), op);
  check(tau > 0, op, ": tau is ", tau, ", a positive number is expected");
  const Tensor x = widened(logits);
  Tensor noise = empty_like(x);
  {
    const NoGrad no_grad;
    exponential_(noise);
  }
  const Tensor soft = softmax(div(sub(x, log(noise)), tau), d);
  if (!hard || x.numel() == 0) return to(soft, logits.dtype());
  // What leads from the soft draw to the hard one is not differentiated.
  const Tensor step = [&] {
    const NoGrad no_grad;
    const Tensor at = argmax(soft, d, true);
    return sub(scatter(zeros_like(x), d, at, ones_like(at, x.dtype())), soft);
  }();
  return to(add(soft, detach(step)), logits.dtype());
}

Tensor glu_composite(const Tensor& x, int64_t dim) {
  const int d = wrap_dim(dim, x.dim(), "glu");
  check(x.dim() > 0 && x.size(d) % 2 == 0, "glu: x has shape ", x.sizes(), ", an even size of dim ",
        d + 1, " is expected");
  const int64_t half_size = x.size(d) / 2;
  const Tensor gate = sigmoid(widened(narrow(x, d, half_size, half_size)));
  return to(mul(narrow(x, d, 0, half_size), gate), x.dtype());
}

Tensor cosine_similarity_composite(const Tensor& a, const Tensor& b, int64_t dim, double eps) {
  const Dims shape = broadcast(a.sizes(), b.sizes(), "cosine_similarity");
  const int d = wrap_dim(dim, shape.size(), "cosine_similarity");
  const Tensor left = a.sizes() == shape ? a : expand(a, shape);
  const Tensor right = b.sizes() == shape ? b : expand(b, shape);
  // Divided before they are multiplied: products of lengths leave the range of small dtypes.
  const auto unit = [&](const Tensor& x) { return div(x, maximum(norm(x, 2.0, {d}, true), eps)); };
  return sum(mul(unit(left), unit(right)), {d}, false, std::nullopt);
}

Tensor pairwise_distance_composite(const Tensor& x1, const Tensor& x2, double p, double eps,
                                   bool keepdim) {
  const DType both = promote(x1.dtype(), x2.dtype(), "pairwise_distance");
  // Distances are real, and of integers no integers.
  const DType own = is_differentiable(both) ? real_of(both) : execution.default_dtype;
  Tensor apart = sub(widened(x1), widened(x2));
  apart = is_floating(apart.dtype()) ? add_(apart, eps) : add(apart, eps);
  check(apart.dim() >= 1,
        "pairwise_distance: the inputs have shape (), (..., features) is expected");
  return to(norm(apart, p, {apart.dim() - 1}, keepdim), own);
}

Tensor pdist_composite(const Tensor& given, double p) {
  check(given.dim() == 2, "pdist: x has shape ", given.sizes(), ", (n, features) is expected");
  check(p >= 0, "pdist: p is ", p, ", at least 0 is expected");
  check_dtype("pdist", "x", given, dtypes::floating);
  const int64_t n = given.size(0);
  if (n < 2) return sum(narrow(given, 0, 0, 0), {1});
  if (given.device().real().is_cpu()) return native_pdist(given, p);
  if (given.size(1) == 0) return zeros({n * (n - 1) / 2}, options_of(given));
  const Tensor x = widened(given);
  std::vector<Tensor> parts;
  for (int64_t i = 0; i + 1 < n; ++i)
    parts.push_back(norm(sub(narrow(x, 0, i, 1), narrow(x, 0, i + 1, n - i - 1)), p, {1}));
  return to(cat(parts, 0), given.dtype());
}

Tensor bilinear_composite(const Tensor& x1, const Tensor& x2, const Tensor& weight,
                          const Tensor& bias) {
  const char* op = "bilinear";
  check(x1.dim() >= 1 && x1.dim() == x2.dim(), op, ": x1 ", x1.sizes(), " and x2 ", x2.sizes(),
        " differ in rank");
  for (int i = 0; i + 1 < x1.dim(); ++i)
    check(x1.size(i) == x2.size(i), op, ": x1 ", x1.sizes(), " and x2 ", x2.sizes(),
          " differ in dimension ", i + 1);
  check(weight.dim() == 3 && weight.size(1) == x1.size(-1) && weight.size(2) == x2.size(-1), op,
        ": weight has shape ", weight.sizes(), ", (o, ", x1.size(-1), ", ", x2.size(-1),
        ") is expected");
  const int64_t o = weight.size(0), i = weight.size(1), j = weight.size(2);
  int64_t rows = 1;
  Dims sizes = x1.sizes();
  sizes.back() = o;
  for (int d = 0; d + 1 < x1.dim(); ++d) rows *= x1.size(d);
  const Tensor left = reshape(x1, {rows, i}), right = reshape(x2, {rows, j, 1});
  const Tensor mixed =
      reshape(mm(left, reshape(permute(weight, {1, 0, 2}), {i, o * j})), {rows, o, j});
  Tensor y = reshape(bmm(mixed, right), sizes);
  if (!bias.defined()) return y;
  check(bias.dim() == 1 && bias.size(0) == o, op, ": bias has shape ", bias.sizes(), ", (", o,
        ",) is expected");
  return add(y, bias);
}

}  // namespace moonlet
