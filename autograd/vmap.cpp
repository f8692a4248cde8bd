// autograd/vmap.cpp: vmap in C++.
#include "autograd/vmap.h"

#include "autograd/uses_vmap.h"

namespace moonlet {

namespace {
constexpr const char* kOp = "vmap";
}

Tensor VmapScope::sample(const Tensor& x, int64_t dim) const {
  return make_batched(x, wrap_dim(dim, x.dim(), kOp), level_);
}

Tensor VmapScope::samples_of(const Tensor& y, int64_t dim, const BatchLevelRef& level) {
  const int64_t at = wrap_dim(dim, y.dim() + 1, kOp);
  const Batched* b = batched(y);
  const bool own = b != nullptr && b->level == level;
  Tensor value = own ? b->value : y;
  int from = own ? b->dim : kNotBatched;
  if (from == kNotBatched) {
    Dims sizes = value.sizes();
    sizes.insert(0, level->size);
    value = expand(value, sizes);
    from = 0;
  }
  return movedim(value, {from}, {at});
}

namespace {

int64_t dim_of(const VmapOptions& options, size_t i) {
  return options.in_dims.empty() ? 0 : options.in_dims[i];
}

// How many samples the inputs hold.
int64_t count_samples(const std::vector<Tensor>& inputs, const VmapOptions& options) {
  int64_t count = -1;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const int64_t dim = dim_of(options, i);
    if (dim == VmapOptions::kShared) continue;
    check(inputs[i].defined() && inputs[i].dim() > 0, kOp, ": input ", i + 1,
          " has no dimension that counts samples");
    const int64_t own = inputs[i].size(wrap_dim(dim, inputs[i].dim(), kOp));
    check(count < 0 || count == own, kOp, ": the inputs hold ", count, " and ", own, " samples");
    count = own;
  }
  check(count >= 0, kOp, ": no input has a dimension of samples; look at in_dims");
  return count;
}

}  // namespace

std::vector<Tensor> vmap(const SampleFunction& function, const std::vector<Tensor>& inputs,
                         const VmapOptions& options) {
  check(options.in_dims.empty() || options.in_dims.size() == inputs.size(), kOp, ": in_dims names ",
        options.in_dims.size(), " inputs, there are ", inputs.size());
  const VmapScope scope(count_samples(inputs, options), options.randomness);
  std::vector<Tensor> samples = inputs, results;
  for (size_t i = 0; i < inputs.size(); ++i)
    if (dim_of(options, i) != VmapOptions::kShared)
      samples[i] = scope.sample(inputs[i], dim_of(options, i));
  for (const Tensor& y : function(samples)) {
    check(y.defined(), kOp, ": the function gave an undefined tensor");
    results.push_back(scope.samples(y, options.out_dim));
  }
  return results;
}

}  // namespace moonlet
