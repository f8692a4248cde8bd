// autograd/composite/nn.cpp: network ops made of other ops: attention, dropout, gates.
#include <cmath>

#include "autograd/formulas/common.h"
#include "autograd/formulas/nn.h"
#include "autograd/tape.h"
#include "autograd/uses_composite_nn.h"

namespace moonlet {

using formulas::widened;

namespace {
void check_attention(const char* op, const Tensor& query, const Tensor& key, const Tensor& value) {
  check(query.dim() >= 2 && key.dim() >= 2 && value.dim() >= 2, op, ": shapes ", query.sizes(),
        ", ", key.sizes(), ", ", value.sizes(), ", at least two dimensions each are wanted");
  check(query.size(-1) == key.size(-1), op, ": query ", query.sizes(), " and key ", key.sizes(),
        " differ in their last size");
  check(key.size(-2) == value.size(-2), op, ": key ", key.sizes(), " and value ", value.sizes(),
        " differ in length");
}
}  // namespace

Tensor native_attention_composite(const Tensor& query, const Tensor& key, const Tensor& value,
                                  const Tensor& attn_mask, bool is_causal, double scale) {
  check_attention("native_attention", query, key, value);
  const GradModeGuard unrecorded(false);
  const Tensor weights = formulas::attention_weights(query, key, attn_mask, is_causal, scale);
  // Not a view made under no_grad, as the product's result may be.
  return shallow_copy(to(matmul(weights, widened(value)), query.dtype()));
}

Tensor scaled_dot_product_attention_composite(const Tensor& query, const Tensor& key,
                                              const Tensor& value, const Tensor& attn_mask,
                                              double dropout_p, bool is_causal,
                                              std::optional<double> scale) {
  const char* op = "scaled_dot_product_attention";
  check_attention(op, query, key, value);
  check(!is_causal || !attn_mask.defined(), op, ": is_causal and attn_mask exclude each other");
  const double factor = scale ? *scale : 1 / std::sqrt(static_cast<double>(query.size(-1)));
  if (dropout_p == 0) return native_attention(query, key, value, attn_mask, is_causal, factor);
  const Tensor weights = formulas::attention_weights(query, key, attn_mask, is_causal, factor);
  return to(matmul(dropout(weights, dropout_p, true), widened(value)), query.dtype());
}

Tensor dropout_composite(const Tensor& x, double p, bool training) {
  check(p >= 0 && p <= 1, "dropout: p is ", p, ", a probability is wanted");
  if (!training || p == 0) return x;
  return mul(x, dropout_mask(x, p));
}

Tensor glu_composite(const Tensor& x, int64_t dim) {
  const int d = wrap_dim(dim, x.dim(), "glu");
  check(x.dim() > 0 && x.size(d) % 2 == 0, "glu: x has shape ", x.sizes(), ", an even size of dim ",
        d + 1, " is wanted");
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

}  // namespace moonlet
