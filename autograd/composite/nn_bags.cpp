// autograd/composite/nn_bags.cpp: sums, means and greatest elements of bags of embeddings.
#include <limits>

#include "autograd/formulas/common.h"
#include "autograd/host_value.h"
#include "autograd/tape.h"
#include "autograd/uses_composite_nn_bags.h"

namespace moonlet {

using formulas::widened;

namespace {

constexpr const char* kOp = "embedding_bag";

// Which positions belong to which bag. Bags and positions count from 1, as in all index tensors.
struct Bags {
  Tensor starts;  // (bags)
  Tensor bag;     // (n): the bag of each position; beyond the last one for what is in none
  Tensor used;    // (n): whether it takes part, or undefined where all do
  int64_t count = 0, n = 0;
};

Bags bags_of(const Tensor& indices, const Tensor& offsets, bool include_last, int64_t padding_idx) {
  check(indices.dim() == 1 && offsets.dim() == 1, kOp, ": indices has shape ", indices.sizes(),
        " and offsets ", offsets.sizes(), ", (n) and (bags) are expected");
  check(!include_last || offsets.numel() >= 1, kOp,
        ": offsets is empty, with include_last_offset it has the end of the last bag");
  check(offsets.numel() > 0 || indices.numel() == 0, kOp, ": no offsets for ", indices.numel(),
        " indices");
  Bags out;
  out.n = indices.numel();
  out.count = offsets.numel() - (include_last ? 1 : 0);
  const NoGrad no_grad;
  const Tensor wide = to(offsets, DType::Int64);
  if (wide.numel() > 0) {
    const Tensor first = all_samples(select(wide, 0, 0));
    const auto least = host_value<int64_t>(amin(first)), most = host_value<int64_t>(amax(first));
    check(least == 1 && most == 1, kOp, ": the first of offsets is ", least == 1 ? most : least,
          ", 1 is expected");
    const auto last = host_value<int64_t>(amax(all_samples(wide)));
    check(last <= out.n + 1, kOp, ": offsets has ", last, " for ", out.n, " indices");
    const Tensor steps =
        sub(narrow(wide, 0, 1, wide.numel() - 1), narrow(wide, 0, 0, wide.numel() - 1));
    check(!host_value<bool>(any(lt(all_samples(steps), 0))), kOp, ": offsets must not fall");
  }
  out.starts = narrow(wide, 0, 0, out.count);
  // A bag begins with each offset: how many have begun is the number of the bag. With
  // include_last_offset what lies beyond the last bag is in bag count + 1.
  const Tensor begun = index_add(zeros({out.n + 1}, options_of(wide)), 0, wide, ones_like(wide));
  out.bag = narrow(cumsum(begun, 0), 0, 0, out.n);
  if (padding_idx != 0) out.used = ne(indices, padding_idx);
  return out;
}

// The sum over each bag of rows (n, features), or of numbers (n).
Tensor bag_sums(const Tensor& rows, const Bags& bags) {
  Dims sizes = rows.sizes();
  sizes[0] = bags.count + 1;
  return narrow(index_add(zeros(sizes, options_of(rows)), 0, bags.bag, rows), 0, 0, bags.count);
}

// How many positions take part in each bag: (bags).
Tensor bag_sizes(const Bags& bags) {
  const NoGrad no_grad;
  const Tensor each = bags.used.defined() ? to(bags.used, DType::Int64) : ones_like(bags.bag);
  return bag_sums(each, bags);
}

// The greatest elements of each bag, from its rows side by side: (bags, longest, features).
Tensor bag_maxima(const Tensor& rows, const Bags& bags) {
  const Tensor everything = [&] {
    const NoGrad no_grad;
    return bag_sums(ones_like(bags.bag), bags);
  }();
  const int64_t longest = bags.count == 0 ? 0 : host_value<int64_t>(amax(all_samples(everything)));
  if (longest == 0) return zeros({bags.count, rows.size(1)}, options_of(rows));
  const Tensor step = arange(0, longest - 1, 1, DType::Int64, rows.device());
  const Tensor inside = lt(step, unsqueeze(everything, 1));
  const Tensor at = where(inside, add(unsqueeze(bags.starts, 1), step), 1);
  Tensor shown = inside;
  const Tensor flat = reshape(at, {at.numel()});
  if (bags.used.defined())
    shown = logical_and(shown, reshape(index_select(bags.used, 0, flat), at.sizes()));
  const Tensor side = reshape(index_select(rows, 0, flat), {bags.count, longest, rows.size(1)});
  const Tensor hidden = logical_not(unsqueeze(shown, 2));
  const Tensor masked = masked_fill(side, hidden, -std::numeric_limits<double>::infinity());
  const Tensor empty = reshape(logical_not(any(shown, Dims{1})), {bags.count, 1});
  return masked_fill(std::get<0>(max_dim(masked, 1)), empty, 0.0);
}

}  // namespace

Tensor embedding_bag_composite(const Tensor& weight, const Tensor& indices, const Tensor& offsets,
                               bool scale_grad_by_freq, std::string_view mode,
                               const Tensor& per_sample_weights, bool include_last_offset,
                               int64_t given_padding, bool sparse) {
  check(mode == "sum" || mode == "mean" || mode == "max", kOp, ": mode is \"", mode,
        "\", \"sum\", \"mean\" or \"max\" is expected");
  check(!per_sample_weights.defined() || mode == "sum", kOp,
        ": per_sample_weights belong to the mode \"sum\", mode is \"", mode, "\"");
  check(!per_sample_weights.defined() || per_sample_weights.sizes() == indices.sizes(), kOp,
        ": per_sample_weights has shape ",
        per_sample_weights.defined() ? per_sample_weights.sizes() : Dims(), ", indices has ",
        indices.sizes());
  check(mode != "max" || !scale_grad_by_freq, kOp,
        ": scale_grad_by_freq is not for the mode \"max\"");
  check(mode != "max" || !sparse, kOp, ": sparse gradients are not for the mode \"max\"");
  check(is_floating(weight.dtype()), kOp, ": weight has dtype ", weight.dtype(),
        ", a floating one is expected");
  const int64_t count = weight.dim() > 0 ? weight.size(0) : 0;
  check(given_padding >= -count && given_padding <= count, kOp, ": padding_idx is ", given_padding,
        " for ", count, " embeddings");
  const int64_t padding_idx = given_padding < 0 ? given_padding + count + 1 : given_padding;
  const Bags bags = bags_of(indices, offsets, include_last_offset, padding_idx);
  Tensor rows = widened(embedding(weight, indices, padding_idx, scale_grad_by_freq, sparse));
  if (mode == "max") return to(bag_maxima(rows, bags), weight.dtype());
  if (bags.used.defined()) rows = masked_fill(rows, unsqueeze(logical_not(bags.used), 1), 0.0);
  if (per_sample_weights.defined()) rows = mul(rows, unsqueeze(widened(per_sample_weights), 1));
  const Tensor sums = bag_sums(rows, bags);
  if (mode == "sum") return to(sums, weight.dtype());
  return to(div(sums, unsqueeze(clamp_min(bag_sizes(bags), int64_t{1}), 1)), weight.dtype());
}

}  // namespace moonlet
