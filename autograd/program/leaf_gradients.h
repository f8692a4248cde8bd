// autograd/program/leaf_gradients.h: what a captured function does to the gradients of leaves, and
// the same for each run of its program. A step of training reads, drops and sets them.
#pragma once

#include <vector>

#include "autograd/tape.h"
#include "tensor/program/capture.h"
#include "tensor/program/plan.h"

namespace moonlet::program {

// For the tape: the gradient of `leaf` is read, or about to change.
void note_gradient_of(const Tensor& leaf, const Gradient& now, bool is_read);
inline void note_leaf_gradient(const Tensor& leaf, const Gradient& now, bool is_read) {
  if (execution.capture != nullptr) [[unlikely]]
    note_gradient_of(leaf, now, is_read);
}

// What became of the gradient of one leaf.
struct LeafGradientChange {
  Tensor leaf;
  bool was_read = false;  // whether it was defined mattered
  bool was_defined = false;
  int input = kNone;   // of the graph: the gradient as it was, where ops used it
  int output = kNone;  // of the graph: the gradient as it is in the end
  bool kept = false;   // it is the same tensor in the end
  size_t hooks = 0;    // of the leaf, which ran, and do not later
  bool operator==(const LeafGradientChange& other) const;
};

// Makes inputs and outputs of the graph of the gradients that the function used and set. When it
// has ended, behind its own inputs and outputs.
std::vector<LeafGradientChange> finish_leaf_gradients(Capture& capture);

// Whether the leaves have gradients as they had when captured, so that the program may run.
bool leaf_gradients_fit(const std::vector<LeafGradientChange>& changes, const Graph& graph);
// Puts the gradients that the program is given behind its own inputs.
void add_leaf_gradients(const std::vector<LeafGradientChange>& changes,
                        std::vector<Tensor>& inputs);
// Takes gradients that the program is about to replace, and that nobody else holds, from their
// leaves and makes them its outputs: the new ones are written where the old ones lie.
void lend_leaf_gradients(const std::vector<LeafGradientChange>& changes, const Plan& plan,
                         std::vector<Tensor>& outputs);
// Gives the leaves what came out, which lies behind the function's own outputs.
void set_leaf_gradients(const std::vector<LeafGradientChange>& changes,
                        const std::vector<Tensor>& outputs);

}  // namespace moonlet::program
