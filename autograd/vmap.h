// autograd/vmap.h: vmap in C++: functions of one sample run on a whole batch. What they are made of
// is public ops; what looks at elements throws.
#pragma once

#include <functional>
#include <vector>

#include "tensor/runtime/batched.h"

namespace moonlet {

// A vmap for a C++ scope, inside of the one that runs. Its tensors are of use in the scope alone.
class VmapScope {
 public:
  // `randomness` says what random ops do: throw, draw for each sample, or once for all.
  explicit VmapScope(int64_t size, Randomness randomness = Randomness::Error)
      : level_(enter_batch_level(size, randomness)) {}
  ~VmapScope() { leave_batch_level(*level_); }
  VmapScope(const VmapScope&) = delete;
  VmapScope& operator=(const VmapScope&) = delete;

  // One sample of x, of which dimension `dim` (from 0, negative from the end) counts them.
  Tensor sample(const Tensor& x, int64_t dim = 0) const;
  // A result for all samples, which dimension `dim` then counts. What is the same for all of them
  // is expanded.
  Tensor samples(const Tensor& y, int64_t dim = 0) const { return samples_of(y, dim, level_); }

  static Tensor samples_of(const Tensor& y, int64_t dim, const BatchLevelRef& level);

 private:
  const BatchLevelRef level_;
};

struct VmapOptions {
  static constexpr int64_t kShared = INT64_MIN;  // in `in_dims`: the same for all samples

  std::vector<int64_t> in_dims;  // which dimension of each input counts samples; empty: the first
  int64_t out_dim = 0;           // and which of each result
  Randomness randomness = Randomness::Error;
};

using SampleFunction = std::function<std::vector<Tensor>(const std::vector<Tensor>&)>;

// The results of `function`, which takes one sample of each input, for all samples. Throws where
// inputs disagree about how many there are, or none counts them. Gradients of each sample by
// itself: differentiate inside by `differentiation_input(x)` (autograd/forward_mode.h).
std::vector<Tensor> vmap(const SampleFunction& function, const std::vector<Tensor>& inputs,
                         const VmapOptions& options = {});

}  // namespace moonlet
