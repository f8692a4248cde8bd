// autograd/composite/statistics.cpp: modes, quantiles, covariances and histograms.
#include <cmath>
#include <limits>

#include "autograd/formulas/common.h"
#include "autograd/host_value.h"
#include "autograd/tape.h"
#include "autograd/uses_composite_statistics.h"
#include "tensor/runtime/execution.h"
#include "tensor/shapes/result.h"

namespace moonlet {

using formulas::widened;

// The position of the last of the most frequent elements along d, with size 1 there: in order,
// equal elements are a run, and the first of the longest runs ends at the first largest length.
static Tensor mode_positions(const Tensor& x, int d) {
  const NoGrad no_grad;
  const auto [sorted, order] = sort(x, d, false, true);
  const int64_t n = x.size(d);
  Dims along = Dims::filled(x.dim(), 1);
  along[d] = n;
  const Tensor position = reshape(cumsum(ones({n}, {DType::Int64, x.device()}), 0), along);
  const Tensor changes = ne(narrow(sorted, d, 1, n - 1), narrow(sorted, d, 0, n - 1));
  const Tensor begin = where(changes, narrow(position, d, 1, n - 1), int64_t{1});
  const Tensor first = ones_like(narrow(order, d, 0, 1));
  const Tensor length = sub(position, std::get<0>(cummax(cat({first, begin}, d), d)));
  return gather(order, d, argmax(length, d, true));
}

std::tuple<Tensor, Tensor> mode_composite(const Tensor& x, int64_t dim, bool keepdim) {
  const int d = wrap_dim(dim, x.dim(), "mode");
  if (x.dim() == 0) return {clone(x), ones({}, {DType::Int64, x.device()})};
  check(x.size(d) > 0, "mode: dim ", d + 1, " of shape ", x.sizes(), " holds no elements");
  const Tensor at = mode_positions(x, d), values = gather(x, d, at);
  if (keepdim) return {values, at};
  return {squeeze(values, Dims{d}), squeeze(at, Dims{d})};
}

namespace {

enum class Interpolation { Linear, Lower, Higher, Midpoint, Nearest };

Interpolation interpolation_of(const char* op, std::string_view name) {
  if (name == "linear") return Interpolation::Linear;
  if (name == "lower") return Interpolation::Lower;
  if (name == "higher") return Interpolation::Higher;
  if (name == "midpoint") return Interpolation::Midpoint;
  check(name == "nearest", op, ": interpolation is \"", name,
        "\"; it can be \"linear\", \"lower\", \"higher\", \"midpoint\" or \"nearest\"");
  return Interpolation::Nearest;
}

// q as a tensor of x's dtype: () or (count).
Tensor probabilities(const char* op, const Tensor& x, const Operand& q) {
  if (!q.is_tensor()) {
    const double p = q.scalar().to_double();
    check(p >= 0 && p <= 1, op, ": q is ", p, ", a number from 0 to 1 is expected");
    return full({}, p, options_of(x));
  }
  const Tensor& p = q.tensor();
  check(p.dim() <= 1, op, ": q has shape ", p.sizes(), ", at most one dimension is expected");
  check(p.dtype() == x.dtype(), op, ": q has dtype ", p.dtype(), ", that of x, ", x.dtype(),
        ", is expected");
  check(p.device().real() == x.device().real(), op, ": q is on ", p.device(), " and x on ",
        x.device());
  const NoGrad no_grad;
  // Elsewhere what lies outside is found by the op that reads at the ranks.
  check(!p.device().is_cpu() || host_value<bool>(all(logical_and(ge(p, 0.0), le(p, 1.0)))), op,
        ": q has values outside 0 to 1");
  return p;
}

// The elements of sorted rows at ranks (from 0) that are whole.
Tensor at_ranks(const Tensor& sorted, const Tensor& ranks) {
  return gather(sorted, -1, to(add(ranks, 1.0), DType::Int64));
}

// The quantiles q (1-D) of the last dimension of x: (..., count). Ranks of long rows want float64.
Tensor row_quantiles(const Tensor& x, const Tensor& given, Interpolation how, bool pass_nan) {
  const Tensor q = to(given, DType::Float64), sorted = std::get<0>(sort(x, -1));
  const double last = static_cast<double>(x.size(-1) - 1);
  Dims sizes = x.sizes();
  sizes[sizes.size() - 1] = q.size(0);
  Tensor ranks;
  if (pass_nan) {
    const Tensor count = sum(logical_not(isnan(x)), {-1}, true);
    ranks = clamp_min(mul(q, sub(count, int64_t{1})), 0.0);
  } else {
    // NaN is at the end of its row.
    ranks = masked_fill(expand(mul(q, last), sizes), any(isnan(x), Dims{-1}, true), last);
  }
  if (how == Interpolation::Nearest) return at_ranks(sorted, round(ranks));
  if (how == Interpolation::Higher) return at_ranks(sorted, ceil(ranks));
  const Tensor below = floor(ranks), low = at_ranks(sorted, below);
  if (how == Interpolation::Lower) return low;
  const Tensor high = at_ranks(sorted, ceil(ranks));
  const Tensor weight = how == Interpolation::Midpoint ? full_like(ranks, 0.5) : sub(ranks, below);
  return lerp(low, high, to(weight, x.dtype()));
}

// The quantile p of the last dimension of x, (..., 1), which holds no NaN: its two neighbours in
// the order are selected, which in long rows takes less time than sorting.
Tensor selected_quantile(const Tensor& x, double p, Interpolation how) {
  const double last = static_cast<double>(x.size(-1) - 1);
  const double rank = (x.dtype() == DType::Float32 ? double{static_cast<float>(p)} : p) * last;
  const auto at = [&](double whole) {
    return std::get<0>(kthvalue(x, static_cast<int64_t>(whole) + 1, -1, true));
  };
  const double below = std::floor(rank);
  if (how == Interpolation::Nearest) return at(std::nearbyint(rank));
  if (how == Interpolation::Higher) return at(std::ceil(rank));
  if (how == Interpolation::Lower || rank == below) return at(below);
  const double weight = how == Interpolation::Midpoint ? 0.5 : rank - below;
  return lerp(at(below), at(below + 1), full({}, weight, options_of(x)));
}

// Whether a quantile of rows so long is to be selected.
bool is_selectable(const Tensor& rows, const Operand& q) {
  if (q.is_tensor() || !has_values(rows) || !rows.device().is_cpu() || rows.size(-1) < 1 << 14)
    return false;
  const NoGrad no_grad;
  return !host_value<bool>(any(isnan(amax(rows, {-1}))));
}

Tensor quantiles(const char* op, const Tensor& x, const Operand& q, std::optional<int64_t> dim,
                 bool keepdim, std::string_view interpolation, bool pass_nan) {
  check(x.dtype() == DType::Float32 || x.dtype() == DType::Float64, op, ": x has dtype ", x.dtype(),
        ", float32 or float64 is expected");
  check(x.numel() > 0, op, ": x of shape ", x.sizes(), " has no elements");
  const Interpolation how = interpolation_of(op, interpolation);
  const Tensor p = probabilities(op, x, q);
  const int d = dim ? wrap_dim(*dim, x.dim(), op) : 0;
  const bool all_of_it = !dim || x.dim() == 0;
  const Tensor rows = all_of_it ? reshape(x, {-1}) : movedim(x, {d}, {-1});
  const Tensor found = is_selectable(rows, q)
                           ? selected_quantile(rows, q.scalar().to_double(), how)
                           : row_quantiles(rows, reshape(p, {-1}), how, pass_nan);
  Dims sizes;
  if (p.dim() == 1) sizes.push_back(p.size(0));
  for (int i = 0; i < x.dim(); ++i) {
    if (!all_of_it && i != d)
      sizes.push_back(x.size(i));
    else if (keepdim)
      sizes.push_back(1);
  }
  return reshape(movedim(found, {-1}, {0}), sizes);
}

}  // namespace

Tensor quantile_composite(const Tensor& x, const Operand& q, std::optional<int64_t> dim,
                          bool keepdim, std::string_view interpolation) {
  return quantiles("quantile", x, q, dim, keepdim, interpolation, false);
}

Tensor nanquantile_composite(const Tensor& x, const Operand& q, std::optional<int64_t> dim,
                             bool keepdim, std::string_view interpolation) {
  return quantiles("nanquantile", x, q, dim, keepdim, interpolation, true);
}

namespace {

void check_weights(const char* argument, const Tensor& weights, bool integers, int64_t count) {
  check(weights.dim() == 1 && weights.numel() == count, "cov: ", argument, " has shape ",
        weights.sizes(), ", one number for each of ", count, " observations is expected");
  check(integers ? is_integral(weights.dtype()) : is_floating(weights.dtype()), "cov: ", argument,
        " has dtype ", weights.dtype(), ", ", integers ? "integers are" : "a floating one is",
        " expected");
  const NoGrad no_grad;
  if (count > 0) expect_all(ge(weights, 0.0), text("cov: ", argument, " has negative elements"));
}

// The product of the weights that are there, in `dtype`; undefined where none is.
Tensor joined_weights(const Tensor& fweights, const Tensor& aweights, DType dtype) {
  if (!fweights.defined() && !aweights.defined()) return {};
  if (!aweights.defined()) return to(fweights, dtype);
  const Tensor a = to(aweights, dtype);
  return fweights.defined() ? mul(to(fweights, dtype), a) : a;
}

}  // namespace

Tensor cov_composite(const Tensor& given, double correction, const Tensor& fweights,
                     const Tensor& aweights) {
  check(given.dim() <= 2, "cov: x has shape ", given.sizes(),
        ", at most two dimensions are expected");
  check(given.dtype() != DType::Bool, "cov: x has dtype bool, numbers are expected");
  DType dtype = is_differentiable(given.dtype()) ? given.dtype() : execution.default_dtype;
  if (aweights.defined()) dtype = promote(dtype, aweights.dtype());
  Tensor x = widened(to(given, dtype));
  if (x.dim() < 2) x = reshape(x, {1, -1});
  const int64_t count = x.size(1);
  if (fweights.defined()) check_weights("fweights", fweights, true, count);
  if (aweights.defined()) check_weights("aweights", aweights, false, count);
  const Tensor weights = joined_weights(fweights, aweights, real_of(x.dtype()));
  Tensor divisor, centred, weighted;
  if (!weights.defined()) {
    divisor = full({}, static_cast<double>(count) - correction, {real_of(x.dtype()), x.device()});
    centred = sub(x, mean(x, Dims{1}, true));
    // What rounding took off a large mean is left in all distances from it.
    weighted = centred = sub(centred, mean(centred, Dims{1}, true));
  } else {
    const Tensor total = sum(weights);
    const auto average = [&](const Tensor& v) {
      return div(sum(mul(v, weights), Dims{1}, true), total);
    };
    centred = sub(x, average(x));
    centred = sub(centred, average(centred));
    weighted = mul(centred, weights);
    divisor = aweights.defined() && correction != 0
                  ? sub(total, div(mul(sum(mul(weights, aweights)), correction), total))
                  : sub(total, correction);
  }
  const Tensor products = matmul(weighted, conj(t(centred)));
  return to(squeeze(div(products, clamp_min(divisor, 0.0))), dtype);
}

Tensor corrcoef_composite(const Tensor& x) {
  check(x.dim() <= 2, "corrcoef: x has shape ", x.sizes(), ", at most two dimensions are expected");
  const Tensor c = cov(x);
  if (c.dim() == 0) return div(c, c);
  const Tensor spread = sqrt(real(diagonal(c)));
  const Tensor r = div(div(c, unsqueeze(spread, 1)), unsqueeze(spread, 0));
  if (!is_complex(r.dtype())) return clamp(r, -1.0, 1.0);
  return view_as_complex(clamp(view_as_real(r), -1.0, 1.0));
}

// The ends of a histogram: those given, or where they are equal those of the data.
static std::pair<double, double> histogram_range(const char* op, const Tensor& x, double low,
                                                 double high) {
  if (low == high && x.numel() > 0) {
    low = host_value<double>(amin(x));
    high = host_value<double>(amax(x));
  }
  if (low == high) {
    low -= 1;
    high += 1;
  }
  check(std::isfinite(low) && std::isfinite(high), op, ": the range from ", low, " to ", high,
        " is not finite");
  check(low < high, op, ": min is ", low, " and max ", high, ", a larger max is expected");
  return {low, high};
}

// By what numbers of x's dtype in that range are multiplied so that `bins` times its width is
// finite.
static double range_unit(DType dtype, double low, double high, int64_t bins) {
  const bool is_double = dtype == DType::Float64;
  const double most = is_double ? std::numeric_limits<double>::max()
                                : static_cast<double>(std::numeric_limits<float>::max());
  const bool fits = high / 2 - low / 2 < most / 2 / static_cast<double>(bins);
  return fits ? 1 : std::ldexp(1.0, is_double ? -512 : -64);
}

// The same for each sample inside vmap, and from them which part each element is in, as
// histogram_position.
static Tensor own_histogram_positions(const char* op, const Tensor& x, int64_t bins) {
  const Tensor least = amin(x), most = amax(x), same = eq(least, most);
  const Tensor low = where(same, sub(least, 1.0), least), high = where(same, add(most, 1.0), most);
  check(host_value<bool>(all(isfinite(all_samples(sub(high, low))))), op,
        ": the range of the elements is not finite");
  const auto count = static_cast<double>(bins);
  const Tensor part = floor(div(mul(sub(x, low), count), sub(high, low)));
  return clamp_max(add(part, 2.0), count + 1);
}

namespace {

// What falls between each two neighbours of `edges`, which are in rising order: the number of
// elements of x, or the sum of their weights.
Tensor histogram_counts(const Tensor& x, const Tensor& edges, const Tensor& weight) {
  const int64_t bins = edges.size(0) - 1;
  const Options summed{weight.defined() ? DType::Float64 : DType::Int64, x.device()};
  if (bins == 0) return zeros(Dims{0}, summed);
  const Tensor inside = logical_and(ge(x, select(edges, 0, 0)), le(x, select(edges, 0, -1)));
  // The number of edges up to the element; at the last one it is that of the part before.
  const Tensor position =
      clamp(sub(searchsorted(edges, x, false, true), int64_t{1}), int64_t{1}, bins);
  const Tensor each = weight.defined()
                          ? where(inside, to(reshape(weight, {-1}), summed.dtype), int64_t{0})
                          : to(inside, summed.dtype);
  return index_add(zeros(Dims{bins}, summed), 0, position, each);
}

// The edges of `bins` parts of equal width, of a range that is given or that of the elements.
Tensor histogram_edges(const Tensor& x, int64_t bins, const std::vector<double>& range) {
  constexpr const char* op = "histogram";
  check(bins > 0 && bins < int64_t{1} << 48, op, ": bins is ", bins,
        ", at least 1 and less than 2^48 are expected");
  check(range.empty() || range.size() == 2, op, ": range holds ", range.size(),
        " numbers, 2 are expected");
  Tensor low, high;
  if (!range.empty() || x.numel() == 0) {
    low = full({}, range.empty() ? 0.0 : range[0], options_of(x));
    high = full({}, range.empty() ? 1.0 : range[1], options_of(x));
  } else {
    low = amin(x);
    high = amax(x);
  }
  if (has_values(low)) {
    const double from = host_value<double>(low), end = host_value<double>(high);
    check(std::isfinite(from) && std::isfinite(end), op, ": the range from ", from, " to ", end,
          " is not finite");
    check(from <= end, op, ": the range from ", from, " to ", end, " is empty");
  }
  const Tensor same = eq(low, high);
  return linspace(where(same, sub(low, 0.5), low), where(same, add(high, 0.5), high), bins + 1,
                  options_of(x));
}

std::tuple<Tensor, Tensor> histogram_between(const Tensor& given, const Tensor& edges,
                                             const Tensor& weight, bool density) {
  if (weight.defined()) {
    shapes::check_shape("histogram", "weight", weight.sizes(), given.sizes());
    check(weight.dtype() == given.dtype(), "histogram: weight has dtype ", weight.dtype(),
          " and x ", given.dtype());
  }
  Tensor counts = histogram_counts(reshape(widened(given), {-1}), widened(edges), weight);
  if (density)
    counts = div(div(to(counts, DType::Float64), sum(counts)), to(diff(edges), DType::Float64));
  return {to(counts, given.dtype()), edges};
}

}  // namespace

std::tuple<Tensor, Tensor> histogram_composite(const Tensor& x, int64_t bins,
                                               const std::vector<double>& range,
                                               const Tensor& weight, bool density) {
  const NoGrad no_grad;
  check(is_floating(x.dtype()), "histogram: x has dtype ", x.dtype(),
        ", a floating one is expected");
  return histogram_between(x, histogram_edges(x, bins, range), weight, density);
}

std::tuple<Tensor, Tensor> histogram_at_composite(const Tensor& x, const Tensor& bins,
                                                  const Tensor& weight, bool density) {
  const NoGrad no_grad;
  check(is_floating(x.dtype()), "histogram: x has dtype ", x.dtype(),
        ", a floating one is expected");
  check(bins.dim() == 1 && bins.numel() > 0, "histogram: the edges have shape ", bins.sizes(),
        ", one dimension of at least one is expected");
  check(bins.dtype() == x.dtype(), "histogram: the edges have dtype ", bins.dtype(), " and x ",
        x.dtype());
  if (has_values(bins))
    check(host_value<bool>(all(ge(diff(bins), 0.0))),
          "histogram: the edges are in no rising order");
  return histogram_between(x, detach(bins), weight, density);
}

Tensor histc_composite(const Tensor& given, int64_t bins, double min, double max) {
  const NoGrad no_grad;
  check(is_floating(given.dtype()), "histc: x has dtype ", given.dtype(),
        ", a floating one is expected");
  check(bins > 0 && bins < int64_t{1} << 48, "histc: bins is ", bins,
        ", at least 1 and less than 2^48 are expected");
  const Tensor x = reshape(widened(given), {-1});
  // What is outside is counted in a part of its own, the first.
  const Tensor position = [&] {
    if (min == max && x.numel() > 0 && !has_values(x))
      return own_histogram_positions("histc", x, bins);
    const auto [low, high] = histogram_range("histc", x, min, max);
    const double unit = range_unit(x.dtype(), low, high, bins);
    return histogram_position(unit == 1 ? x : mul(x, unit), low * unit, high * unit,
                              static_cast<double>(bins));
  }();
  const Tensor at = to(position, DType::Int64);
  const Tensor counts = index_add(zeros({bins + 1}, options_of(at)), 0, at, ones_like(at));
  return to(narrow(counts, 0, 1, bins), given.dtype());
}

}  // namespace moonlet
