// tensor/program/passes/recompute.h: what a forward graph saves for its backward graph, less what
// the backward graph can cheaply compute again.
#pragma once

#include <vector>

#include "tensor/program/graph.h"

namespace moonlet::program {

// A value that forward gives and backward takes: positions among the outputs of the one and the
// inputs of the other.
struct SavedValue {
  int output = kNone, input = kNone;
};

// Saved values that one pointwise op makes of other saved values go from the outputs and inputs,
// and backward computes them where it first reads them: the same bits for less memory. `saved` gets
// the new positions. Those stay that are outputs for another reason, or whose memory is written.
bool recompute(Graph& forward, Graph& backward, std::vector<SavedValue>& saved);

}  // namespace moonlet::program
