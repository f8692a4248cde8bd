// autograd/engine.h: a backward as more than tensors: from and to edges of the graph, into some
// inputs alone, and what hooks may ask of the one that runs.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "autograd/node.h"

namespace moonlet {

struct BackwardRequest {
  std::vector<Edge> outputs;
  std::vector<Tensor> gradients;  // one per output, undefined for 1, or none
  std::vector<Edge> inputs;
  bool retain_graph = false, create_graph = false;
};

// Adds the gradients of all leaves to theirs; with `into_inputs` only of those among the inputs,
// and gives those of the other inputs, undefined where there is none.
std::vector<Tensor> accumulate_gradients(const BackwardRequest& request, bool into_inputs);
// The gradients of the inputs, undefined where an output does not depend on one.
std::vector<Tensor> gradients_of_inputs(const BackwardRequest& request);

// What comes to an input: what came along each way to it, in order, or the sum of these.
struct ReachingGradients {
  std::vector<Tensor> parts;
  Tensor sum;
  int ways = 0;
};
// The same for all inputs, as sums or in parts. Nothing runs beyond the inputs, nor do hooks of
// theirs, though others of the inputs may lie there; no gradient may come as rows.
std::vector<ReachingGradients> gradients_reaching(const BackwardRequest& request, bool sums);

// The number of the backward that runs on this thread, the innermost; 0 for none.
uint64_t running_backward();
// Whether what its nodes saved stays, for another one.
bool running_backward_keeps_graph();
// Has `f` called when it has ended well. Throws where none runs.
void after_backward(std::function<void()> f);
// Whether it computes the gradient that goes along the edge.
bool is_computed_now(const Edge& edge);
// Whether it has found a gradient for that already, to which others will be added.
bool has_gradient_so_far(const Edge& edge);

}  // namespace moonlet
