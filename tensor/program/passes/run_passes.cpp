// tensor/program/passes/run_passes.cpp: the order of the passes.
#include "tensor/program/passes/passes.h"
#include "tensor/program/passes/rewrite.h"

namespace moonlet::program {

namespace {

// More rounds than any graph has taken; each does a part of what the one before made possible.
constexpr int kMostRounds = 8;

}  // namespace

void run_passes(Graph& graph, const PassOptions& options) {
  bool changed = drop_dead_code(graph);
  for (int round = 0; round < kMostRounds; ++round) {
    changed = merge_views(graph);
    changed = make_functional(graph) || changed;
    changed = merge_common(graph) || changed;
    changed = drop_copies(graph) || changed;
    changed = fold_constants(graph, options) || changed;
    changed = fold_batch_norm(graph, options) || changed;
    changed = merge_attention(graph, options) || changed;
    changed = merge_epilogues(graph, options) || changed;
    changed = drop_dead_code(graph) || changed;
    if (!changed) break;
  }
  // Last, as a bias or batch norm behind a convolution may still become part of it.
  merge_activations(graph);
  compact(graph);
}

}  // namespace moonlet::program
