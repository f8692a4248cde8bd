// tensor/shapes/nn.cpp: argument checks and result shapes of attention.
#include "tensor/shapes/nn.h"

#include "tensor/shapes/random.h"
#include "tensor/shapes_nn.h"

namespace moonlet::shapes {

namespace {

Dims batch_of(const Tensor& x) {
  return x.dim() <= 2 ? Dims() : Dims(x.sizes().data(), x.dim() - 2);
}

}  // namespace

Dims attended(const char* op, const Tensor& query, const Tensor& key, const Tensor& value,
              const Tensor& mask) {
  check(query.dim() >= 2 && key.dim() >= 2 && value.dim() >= 2, op, ": shapes ", query.sizes(),
        ", ", key.sizes(), ", ", value.sizes(), ", at least two dimensions each are expected");
  check(query.size(-1) == key.size(-1), op, ": query ", query.sizes(), " and key ", key.sizes(),
        " differ in their last size");
  check(key.size(-2) == value.size(-2), op, ": key ", key.sizes(), " and value ", value.sizes(),
        " differ in length");
  Dims out = broadcast(broadcast(batch_of(query), batch_of(key), op), batch_of(value), op);
  if (mask.defined()) {
    check(mask.dtype() == DType::Bool || is_floating(mask.dtype()), op, ": attn_mask is of ",
          name(mask.dtype()), ", bool or a floating dtype is expected");
    out = broadcast(out, batch_of(mask), op);
  }
  out.push_back(query.size(-2));
  out.push_back(key.size(-2));
  if (mask.defined())
    check(can_expand(mask.sizes(), out), op, ": attn_mask has shape ", mask.sizes(),
          ", which does not broadcast to ", out);
  out.back() = value.size(-1);
  return out;
}

namespace {

Dims attended_in_one_dtype(const char* op, const Tensor& query, const Tensor& key,
                           const Tensor& value, const Tensor& mask) {
  check(query.dtype() == key.dtype() && query.dtype() == value.dtype(), op,
        ": query, key and value differ in dtype");
  return attended(op, query, key, value, mask);
}

// The results' sizes where there is dropout, whose states broadcast as the rest does.
Dims with_dropout(const char* op, const Dims& attended, double p, const Tensor& states) {
  check_probability(op, p);
  check(p == 0 || states.defined(), op, ": dropout_p is ", p, " without states to draw from");
  if (!states.defined()) return attended;
  check_states(op, states);
  const int rank = attended.size();
  Dims sizes = broadcast({attended.data(), rank - 2}, batch_of(states), op);
  sizes.push_back(attended[rank - 2]);
  sizes.push_back(attended[rank - 1]);
  return sizes;
}

// Rows of elements one after the other, in the order in which the queries lie.
Dims laid_out_rows(const Dims& sizes, const Tensor& query) {
  const Dims outer(sizes.data(), sizes.size() - 1);
  const Dims lies = broadcast_strides({query.sizes().data(), query.dim() - 1},
                                      {query.strides().data(), query.dim() - 1}, outer);
  Dims strides = followed_strides(outer, &lies, 1);
  for (int d = 0; d < strides.size(); ++d) strides[d] *= std::max<int64_t>(sizes.back(), 1);
  strides.push_back(1);
  return strides;
}

}  // namespace

std::array<Result, 2> flash_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                      const Tensor& attn_mask, bool, double, double dropout_p,
                                      const Tensor& states) {
  const char* op = "flash_attention";
  const Dims sizes =
      with_dropout(op, attended_in_one_dtype(op, query, key, value, attn_mask), dropout_p, states);
  const Options options = options_of(query);
  return {Result{sizes, options, laid_out_rows(sizes, query)},
          Result{{sizes.data(), sizes.size() - 1}, {compute_dtype(options.dtype), options.device}}};
}

std::array<Result, 3> flash_attention_grads(const Tensor& grad, const Tensor& query,
                                            const Tensor& key, const Tensor& value,
                                            const Tensor& attn_mask, const Tensor& y,
                                            const Tensor& logsumexp, bool, double, double dropout_p,
                                            const Tensor& states) {
  const char* op = "flash_attention_grads";
  const Dims sizes =
      with_dropout(op, attended_in_one_dtype(op, query, key, value, attn_mask), dropout_p, states);
  check_shape(op, "grad", grad.sizes(), sizes);
  check_shape(op, "y", y.sizes(), sizes);
  check_shape(op, "logsumexp", logsumexp.sizes(), {sizes.data(), sizes.size() - 1});
  const auto beside = [](const Tensor& x) {
    return Result{x.sizes(), options_of(x), laid_out_rows(x.sizes(), x)};
  };
  return {beside(query), beside(key), beside(value)};
}

}  // namespace moonlet::shapes
