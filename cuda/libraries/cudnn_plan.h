// cuda/libraries/cudnn_plan.h: how cuDNN computes a convolution: descriptors and the algorithms
// that can, looked up once for each shape and kept for the thread.
#pragma once

#include <array>
#include <compare>
#include <cstdint>

#include "cuda/libraries/cudnn_library.h"

namespace moonlet::cuda::cudnn {

// What is computed of the three: the output, the gradient of the input, that of the filters.
enum class Kind : int32_t { Forward, Data, Filter };

// What a plan depends on. Sizes are (n, c, axes...) and (o, c / groups, axes...), with 2 or 3 axes.
struct Problem {
  Kind kind;
  int32_t device;
  DType dtype;
  int32_t axes, groups;
  bool channels_last;  // all three lie so; else row-major
  bool allow_tf32, deterministic, benchmark;
  int32_t benchmark_limit;
  std::array<int32_t, 5> x, weight, y;
  std::array<int32_t, 3> stride, padding, dilation;
  bool operator==(const Problem&) const = default;
  size_t hash() const;
};

// Dense elements in the problem's order, at multiples of 16 bytes.
struct Operands {
  void *x, *weight, *y;
};

// Computes the one that the problem's kind says from the other two. False where there is no way.
bool run(const Call& call, const Problem& problem, const Operands& at);

}  // namespace moonlet::cuda::cudnn
