// autograd/composite/gather.cpp: counts of positions, elements brought together at positions, and
// elements counted in row order.
#include <algorithm>
#include <limits>

#include "autograd/host_value.h"
#include "autograd/uses_composite_gather.h"

namespace moonlet {

Tensor bincount_composite(const Tensor& x, const Tensor& weights, int64_t minlength) {
  check(x.dim() == 1, "bincount: x has shape ", x.sizes(), "; one dimension expected");
  if (is_integral(x.dtype()) && size_of(x.dtype()) < size_of(DType::Int32))
    return bincount(to(x, DType::Int64), weights, minlength);
  check(minlength >= 0, "bincount: minlength ", minlength, " is negative");
  // The samples of a batch have results of one length.
  const bool known = has_values(x);
  check(known || minlength > 0,
        "bincount: inside vmap minlength says how long the results are, and is to be at least 1");
  const int64_t most = known && x.numel() ? host_value<int64_t>(amax(x)) : 0;
  const int64_t length = std::max({most, minlength, int64_t{0}});
  const Options counted{DType::Int64, x.device()};
  Tensor each = weights.defined() ? weights : expand(ones(Dims{1}, counted), Dims{x.numel()});
  if (weights.defined() && weights.dtype() != DType::Float32) each = to(weights, DType::Float64);
  return index_add(zeros(Dims{length}, options_of(each)), 0, x, each);
}

namespace {

// A number that changes nothing when `reduce` brings it together with others.
Scalar neutral(std::string_view reduce, DType dtype) {
  if (reduce == "prod") return int64_t{1};
  if (reduce != "amax" && reduce != "amin") return int64_t{0};
  const bool largest = reduce == "amin";
  if (is_floating(dtype))
    return largest ? std::numeric_limits<double>::infinity()
                   : -std::numeric_limits<double>::infinity();
  return largest ? Scalar::of(largest_integer(dtype)) : Scalar(smallest_integer(dtype));
}

// The sums in `total` divided by how many elements are in each.
Tensor averaged(const Tensor& total, const Tensor& base, int64_t dim, const Tensor& index,
                const Tensor& src, bool include_self) {
  const Tensor one = ones(src.sizes(), options_of(base));
  Tensor counts = ones(base.sizes(), options_of(base));
  if (!include_self) counts = scatter_value(counts, dim, index, int64_t{0});
  counts = scatter_add(counts, dim, index, one);
  if (!include_self) counts = clamp_min(counts, int64_t{1});
  return is_integral(base.dtype()) ? floor_divide(total, counts) : div(total, counts);
}

}  // namespace

Tensor scatter_reduce_composite(const Tensor& x, int64_t dim, const Tensor& index,
                                const Tensor& src, std::string_view reduce, bool include_self) {
  const bool known = reduce == "sum" || reduce == "prod" || reduce == "mean" || reduce == "amax" ||
                     reduce == "amin";
  check(known,
        "scatter_reduce: reduce is \"sum\", \"prod\", \"mean\", \"amax\" or \"amin\", got \"",
        reduce, "\"");
  const Tensor base = include_self ? x : scatter_value(x, dim, index, neutral(reduce, x.dtype()));
  if (reduce == "sum") return scatter_add(base, dim, index, src);
  if (reduce == "mean")
    return averaged(scatter_add(base, dim, index, src), x, dim, index, src, include_self);
  return scatter_fold(base, dim, index, src, reduce);
}

Tensor scatter_with_composite(const Tensor& x, int64_t dim, const Tensor& index, const Operand& src,
                              std::string_view reduce) {
  check(reduce == "add" || reduce == "multiply",
        "scatter: reduce is \"add\" or \"multiply\", got \"", reduce,
        "\"; scatter_reduce has others");
  const Tensor values =
      src.is_tensor() ? src.tensor() : full(index.sizes(), src.scalar(), options_of(x));
  if (reduce == "add") return scatter_add(x, dim, index, values);
  return scatter_fold(x, dim, index, values, "prod");
}

Tensor index_fill_tensor_composite(const Tensor& x, int64_t dim, const Tensor& index,
                                   const Tensor& value) {
  check(value.dim() == 0, "index_fill: value has shape ", value.sizes(), "; one number expected");
  const int d = wrap_dim(dim, x.dim(), "index_fill");
  Dims sizes = x.sizes();
  if (x.dim() > 0) sizes[d] = index.numel();
  check(is_complex(x.dtype()) || !is_complex(value.dtype()), "index_fill: value has dtype ",
        value.dtype(), ", but ", x.dtype(), " is real");
  return index_copy(x, d, index, expand(to(value, x.dtype()), sizes));
}

// Elements counted in row order.

Tensor take_composite(const Tensor& x, const Tensor& index) {
  return moonlet::index(reshape(x, {-1}), {index});
}

Tensor put_composite(const Tensor& x, const Tensor& index, const Tensor& source, bool accumulate) {
  check(source.numel() == index.numel(), "put: source has shape ", source.sizes(), ", index has ",
        index.sizes(), "; as many elements are expected");
  return reshape(index_put(reshape(x, {x.numel()}), {reshape(index, {index.numel()})},
                           reshape(source, {source.numel()}), accumulate),
                 x.sizes());
}

Tensor take_along_dim_composite(const Tensor& x, const Tensor& indices,
                                std::optional<int64_t> dim) {
  if (!dim) return gather(reshape(x, {x.numel()}), 0, reshape(indices, {indices.numel()}));
  check(x.dim() == indices.dim(), "take_along_dim: indices have shape ", indices.sizes(),
        "; as many dimensions expected as ", x.sizes(), " has");
  if (x.dim() == 0) return gather(x, 0, indices);
  const int d = wrap_dim(*dim, x.dim(), "take_along_dim");
  Dims own = x.sizes(), theirs = indices.sizes();
  own[d] = theirs[d] = 1;
  Dims from = broadcast(own, theirs, "take_along_dim"), to = from;
  from[d] = x.sizes()[d];
  to[d] = indices.sizes()[d];
  return gather(expand(x, from), d, expand(indices, to));
}

}  // namespace moonlet
