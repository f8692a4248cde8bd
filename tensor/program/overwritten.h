// tensor/program/overwritten.h: memory that a captured function took without an op and wrote before
// it read: `full` is such memory and a fill.
#pragma once

#include <functional>
#include <vector>

#include "tensor/program/graph.h"

namespace moonlet::program {

// Makes internal buffers of the parameters whose memory is written whole before anything reads it,
// but for those of which `is_outside` says that others have them. Returns their tensors.
std::vector<Tensor> adopt_overwritten(Graph& graph,
                                      const std::function<bool(const Tensor&)>& is_outside);

}  // namespace moonlet::program
