// tensor/program/passes/passes.h: changes of a graph that leave what it computes as it is, and what
// it draws, writes and raises. Unless an option says otherwise the results stay the same to the
// last bit.
#pragma once

#include <cstdint>

#include "tensor/program/graph.h"

namespace moonlet::program {

struct PassOptions {
  // The elements of parameters are those of now for all time, as in a program for inference: what
  // is made of them alone is computed once and kept as a parameter.
  bool parameters_constant = false;
  // The most bytes that are kept so.
  int64_t constant_bytes = int64_t{64} << 20;
  // Otherwise results may differ in the last bits: attention written out becomes one op, and a bias
  // that is added part of its product.
  bool same_bits = true;
  // The scale and shift of batch norm in evaluation become part of the convolution before it. The
  // results differ in the last bits, so it is for programs for inference whose user asks for it;
  // takes parameters_constant too.
  bool fold = false;
};

// All passes below in order, again until they change nothing. Positions among the inputs, the
// parameters of before and the outputs stay; values and buffers get other numbers.
void run_passes(Graph& graph, const PassOptions& options = {});

// Each says whether it changed the graph.

// Drops nodes that nothing depends on. Those stay that draw random numbers, as what is drawn later
// would change, and those that may raise an error for what they read.
bool drop_dead_code(Graph& graph);
// Views that look the same on the same memory become one, and views of views one view.
bool merge_views(Graph& graph);
// Pointwise ops and copies in place over memory of the graph's own give new values instead, so that
// fusion sees values and no writes.
bool make_functional(Graph& graph);
// One node for those that compute the same of the same.
bool merge_common(Graph& graph);
// Copies whose source could have been used itself.
bool drop_copies(Graph& graph);
// relu of a convolution that nothing else uses becomes part of it.
bool merge_activations(Graph& graph);
// With parameters_constant: runs nodes that depend on constants alone.
bool fold_constants(Graph& graph, const PassOptions& options);
// Without same_bits: a bias that is added to a product becomes part of it.
bool merge_epilogues(Graph& graph, const PassOptions& options);
// With `fold`.
bool fold_batch_norm(Graph& graph, const PassOptions& options);
// Without `same_bits`: softmax(q k^T * s) v.
bool merge_attention(Graph& graph, const PassOptions& options);

}  // namespace moonlet::program
