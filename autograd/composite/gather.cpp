// autograd/composite/gather.cpp: counts of positions.
#include <algorithm>

#include "autograd/host_value.h"
#include "autograd/uses_composite_gather.h"

namespace moonlet {

Tensor bincount_composite(const Tensor& x, const Tensor& weights, int64_t minlength) {
  check(x.dim() == 1, "bincount: x has shape ", x.sizes(), "; one dimension wanted");
  check(minlength >= 0, "bincount: minlength ", minlength, " is negative");
  const int64_t most = x.numel() ? host_value<int64_t>(amax(x)) : 0;
  const int64_t length = std::max({most, minlength, int64_t{0}});
  Tensor each = weights.defined() ? weights : ones(x.sizes(), {DType::Int64, x.device()});
  if (weights.defined() && weights.dtype() != DType::Float32) each = to(weights, DType::Float64);
  return index_add(zeros(Dims{length}, options_of(each)), 0, x, each);
}

}  // namespace moonlet
