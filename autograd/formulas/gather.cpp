// autograd/formulas/gather.cpp: the longer derivatives of what picks rows or elements.
#include "autograd/formulas.h"

#include "autograd/formulas/common.h"
#include "autograd/forward_mode.h"
#include "autograd/host_value.h"
#include "autograd/uses_formulas_gather.h"

namespace moonlet::formulas {

Tensor index_select_grad_x(const Tensor& g, int64_t dim, const Tensor& index, const Dims& sizes) {
  Tensor sums = zeros(sizes, options_of(g));
  return derivatives_wanted() ? index_add(sums, dim, index, g) : index_add_(sums, dim, index, g);
}

Tensor embedding_grad(const RowsTaker& taker, const Tensor& g, const Tensor& index,
                      const Dims& sizes, int64_t padding_idx, bool scale_grad_by_freq,
                      bool sparse) {
  if (sparse && taker) {
    taker.take(rows_at(g, index, sizes, padding_idx));
    return {};
  }
  const Tensor scaled = by_frequency(g, index, sizes[0], scale_grad_by_freq);
  return embedding_grad_weight(scaled, index, sizes[0], padding_idx);
}

Tensor embedding_grad_weight_grad_grad(const Tensor& g, const Tensor& index, int64_t padding_idx) {
  Tensor rows = embedding(g, index, padding_idx);
  if (padding_idx == 0) return rows;
  return masked_fill(rows, unsqueeze(eq(index, padding_idx), -1), 0.0);
}

Tensor by_frequency(const Tensor& g, const Tensor& index, int64_t rows, bool wanted) {
  if (!wanted || index.numel() == 0) return g;
  const Tensor flat = reshape(index, {index.numel()});
  const Tensor counts = index_add(zeros({rows}, options_of(flat)), 0, flat, ones_like(flat));
  Dims sizes = index.sizes();
  sizes.push_back(1);
  return div(g, to(reshape(index_select(counts, 0, flat), sizes), g.dtype()));
}

namespace {

// `part` at the beginning of zeros of shape `size`.
Tensor behind_zeros(const Tensor& part, const Dims& size) {
  if (part.sizes() == size) return part;
  if (part.numel() == 0) return zeros(size, options_of(part));
  std::vector<int64_t> pad;
  for (int d = size.size() - 1; d >= 0; --d) {
    pad.push_back(0);
    pad.push_back(size[d] - part.size(d));
  }
  return constant_pad(part, pad, int64_t{0});
}

// The beginning of src, of index's shape.
Tensor used(const Tensor& src, const Tensor& index) {
  if (index.numel() == 0) return zeros(index.sizes(), options_of(src));
  Tensor out = src;
  for (int d = 0; d < src.dim(); ++d)
    if (src.size(d) != index.size(d)) out = slice(out, d, 0, index.size(d), 1);
  return out;
}

// Where elements go along `dim`: each to a position of its own (scatter), or by slices.
struct Positions {
  int64_t dim;
  const Tensor index;
  bool slices;
  Tensor add(const Tensor& x, const Tensor& src) const {
    return slices ? index_add(x, dim, index, src) : scatter_add(x, dim, index, src);
  }
  Tensor multiply(const Tensor& x, const Tensor& src) const {
    return slices ? index_reduce(x, dim, index, src, "prod")
                  : scatter_fold(x, dim, index, src, "prod");
  }
  // What the elements that went to x find there.
  Tensor pick(const Tensor& x) const {
    return slices ? index_select(x, dim, index) : gather(x, dim, index);
  }
};

// How many of the elements before each one along dim have its number in `index`.
Tensor rank_in_group(const Tensor& index, int64_t dim) {
  const auto [sorted, order] = sort(index, dim, false, true);
  const int64_t n = index.size(static_cast<int>(dim));
  Dims line = Dims::filled(index.dim(), 1);
  line[static_cast<int>(dim)] = n;
  const Tensor at = expand(reshape(arange(0, n - 1, 1, DType::Int64, index.device().real()), line),
                           index.sizes());
  const Tensor changes = ne(narrow(sorted, dim, 1, n - 1), narrow(sorted, dim, 0, n - 1));
  const Tensor starts =
      cat({narrow(at, dim, 0, 1), where(changes, narrow(at, dim, 1, n - 1), int64_t{0})}, dim);
  const Tensor rank = sub(at, std::get<0>(cummax(starts, dim)));
  return scatter(zeros_like(rank), dim, order, rank);
}

// Of a product, each factor has the product of the others. All factors of a result stand in a row
// of their own and none is divided by, so that these products have derivatives where factors are 0.
std::tuple<Tensor, Tensor> product_grads_by_rows(const Tensor& g, const Tensor& x,
                                                 const Positions& positions, const Tensor& src) {
  const int64_t dim = positions.dim;
  const int d = static_cast<int>(dim);
  Dims line = Dims::filled(x.dim(), 1);
  line[d] = positions.index.numel();
  const Tensor index =
      to(positions.slices ? expand(reshape(positions.index, line), src.sizes()) : positions.index,
         DType::Int64);
  const Tensor rank = rank_in_group(index, dim);
  const bool known = has_values(rank) && rank.device().is_cpu();
  const int64_t slots = known ? host_value<int64_t>(amax(rank)) + 2 : index.size(d) + 1;
  line[d] = x.size(d);
  const Tensor firsts =
      add(mul(arange(0, x.size(d) - 1, 1, DType::Int64, x.device().real()), slots), 1);
  const Tensor x_at = expand(reshape(firsts, line), x.sizes());
  const Tensor src_at = add(add(mul(sub(index, 1), slots), rank), 2);
  Dims sizes = x.sizes();
  sizes[d] *= slots;
  const Tensor rows = scatter(scatter(ones(sizes, options_of(g)), dim, x_at, x), dim, src_at, src);
  const Tensor others = product_of_others(unflatten(rows, dim, {x.size(d), slots}), d + 1);
  const Tensor each = flatten(mul(others, unsqueeze(g, dim + 1)), dim, dim + 1);
  return {gather(each, dim, x_at), gather(each, dim, src_at)};
}

bool has_no_zero(const Tensor& x) {
  return has_values(x) && x.device().is_cpu() && host_value<bool>(all(x));
}

// The same in less memory, where the derivatives end here or no factor is 0.
std::tuple<Tensor, Tensor> product_grads(const Tensor& g, const Tensor& x,
                                         const Positions& positions, const Tensor& src) {
  if (x.dim() == 0) {
    const Positions line{0, reshape(positions.index, {positions.index.numel()}), positions.slices};
    const auto [by_x, by_src] =
        product_grads(reshape(g, {1}), reshape(x, {1}), line, reshape(src, {src.numel()}));
    return {reshape(by_x, {}), reshape(by_src, src.sizes())};
  }
  if (derivatives_wanted() && x.numel() > 0 && src.numel() > 0 &&
      !(has_no_zero(x) && has_no_zero(src)))
    return product_grads_by_rows(g, x, positions, src);
  const Tensor x_is_0 = eq(x, int64_t{0}), src_is_0 = eq(src, int64_t{0});
  const Tensor x_part = masked_fill(x, x_is_0, int64_t{1});
  const Tensor src_part = masked_fill(src, src_is_0, int64_t{1});
  const Tensor zero_count = positions.add(to(x_is_0, g.dtype()), to(src_is_0, g.dtype()));
  const Tensor others = mul(g, positions.multiply(x_part, src_part));
  // Where there is one 0 only that has a gradient, where there are two nothing has.
  const auto share = [&](const Tensor& count, const Tensor& product, const Tensor& is_0,
                         const Tensor& part) {
    const Tensor wanted = to(is_0, count.dtype());
    return where(eq(count, wanted), div(product, part), int64_t{0});
  };
  return {share(zero_count, others, x_is_0, x_part),
          share(positions.pick(zero_count), positions.pick(others), src_is_0, src_part)};
}

// Of the extremes y, what is one of them has the gradient, several equal ones a share of it each.
std::tuple<Tensor, Tensor> extreme_grads(const Tensor& g, const Tensor& x_is,
                                         const Positions& positions, const Tensor& src,
                                         const Tensor& y) {
  const Tensor src_is = eq(src, positions.pick(y));
  const Tensor count = positions.add(to(x_is, g.dtype()), to(src_is, g.dtype()));
  const Tensor share = div(g, clamp_min(count, int64_t{1}));
  return {where(x_is, share, int64_t{0}), where(src_is, positions.pick(share), int64_t{0})};
}

// The gradient g of means, divided by how many slices are in each.
Tensor mean_share(const Tensor& g, int64_t dim, const Tensor& index, bool include_self) {
  const Options counted{sum_dtype(g.dtype()), g.device()};
  Dims line = Dims::filled(g.dim(), 1);
  const int64_t size = g.dim() > 0 ? g.size(static_cast<int>(dim)) : 1;
  if (g.dim() > 0) line[static_cast<int>(dim)] = size;
  const Tensor self = full({size}, int64_t{include_self}, counted);
  Tensor counts = index_add(self, 0, index, ones({index.numel()}, counted));
  if (!include_self) counts = clamp_min(counts, int64_t{1});
  return to(div(g, reshape(counts, line)), g.dtype());
}

}  // namespace

Tensor scatter_grad_src(const Tensor& g, int64_t dim, const Tensor& index, const Dims& src_size) {
  return behind_zeros(gather(g, dim, index), src_size);
}

std::tuple<Tensor, Tensor> scatter_fold_grads(const Tensor& g, const Tensor& x, int64_t dim,
                                              const Tensor& index, const Tensor& given,
                                              std::string_view reduce, const Tensor& y) {
  const Tensor src = used(given, index);
  const Positions positions{dim, index, false};
  const auto [x_grad, src_grad] = reduce == "prod" ? product_grads(g, x, positions, src)
                                                   : extreme_grads(g, eq(x, y), positions, src, y);
  return {x_grad, behind_zeros(src_grad, given.sizes())};
}

std::tuple<Tensor, Tensor> index_reduce_grads(const Tensor& g, const Tensor& x, int64_t dim,
                                              const Tensor& index, const Tensor& source,
                                              std::string_view reduce, bool include_self,
                                              const Tensor& y) {
  const Positions positions{dim, index, true};
  // What the slices replaced has no part in the results.
  const auto without_self = [&](const Tensor& all, Scalar value) {
    return include_self ? all : index_fill(all, dim, index, value);
  };
  if (reduce == "mean") {
    const Tensor share = mean_share(g, dim, index, include_self);
    return {without_self(share, int64_t{0}), positions.pick(share)};
  }
  if (reduce != "prod")
    return extreme_grads(g, without_self(eq(x, y), false), positions, source, y);
  auto [x_grad, source_grad] = product_grads(g, without_self(x, int64_t{1}), positions, source);
  return {without_self(x_grad, int64_t{0}), source_grad};
}

}  // namespace moonlet::formulas
