// autograd/program/interpret.h: runs a graph op by op on the tape, as the function it was captured
// from did: for derivatives that no graph was made of.
#pragma once

#include <span>
#include <vector>

#include "tensor/program/capture.h"

namespace moonlet::program {

// The tensors of all values; undefined where no node made one. `states`: how the tape met each
// node. `parameters`: one per parameter of the graph. Random numbers are drawn anew.
std::vector<Tensor> interpret(const Graph& graph, std::span<const TapeState> states,
                              std::span<const Tensor> inputs, std::span<const Tensor> parameters);

}  // namespace moonlet::program
