// autograd/program/trace_again.h: backward passes that the captured run did not show: from other
// results, or from gradients that lie otherwise in memory, which ops go through in another order.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "autograd/program/recorded_graphs.h"

namespace moonlet::program {

// Where a backward pass begins.
struct PassStart {
  std::vector<int> from;      // outputs of the node that have gradients, ascending
  std::vector<Dims> strides;  // of these
};

// Tensors like those that a run was given, which are free to change.
struct StandIns {
  std::vector<Tensor> inputs,
      parameters;         // by input of the forward graph; RecordedGraphs::parameters
  std::vector<int> used;  // by parameter of the forward graph: index into these
};

// The pass from there: the function runs again on the tape, op by op, and backward from there.
// Nothing where that is not the tape that the captured run left.
std::optional<BackwardPass> trace_again(const RecordedGraphs& graphs, const StandIns& given,
                                        const PassStart& start);

}  // namespace moonlet::program
