// tests/cpp/program/fusion_harness.h: runs a function eagerly while it is captured, then its graph
// by groups, and compares the bits of all results and of all memory that could be written.
#pragma once

#include <functional>
#include <random>
#include <string>
#include <vector>

#include "tensor/core/views.h"
#include "tensor/program/capture.h"
#include "tensor/program/fusion/executor.h"
#include "tensor/program/fusion/group.h"

namespace moonlet::fusion_test {

using Tensors = std::vector<Tensor>;
using Function = std::function<Tensors(const Tensors&)>;

// Small numbers of that dtype, some of them equal, in new memory.
Tensor fresh(const Dims& sizes, DType dtype, std::mt19937& random);

// A copy of what lies in each tensor's storage, with tensors that share storage sharing it again.
Tensors copies(const Tensors& list);

program::Graph graph_of(const Function& f, const Tensors& inputs, Tensors& outputs);

struct Outcome {
  bool same = false;
  std::string text;                     // the graph, its groups, and what differs
  int nodes = 0, loops = 0, fused = 0;  // fused: nodes in loops
};
Outcome check_bits(const Tensors& inputs, const Function& f);

}  // namespace moonlet::fusion_test
