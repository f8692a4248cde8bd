// autograd/program/gradients_json.h: the backward pass of a program as JSON text, and back. Its
// graphs are written as that of the forward pass is (tensor/program/file/graph_json.h).
#pragma once

#include <string>
#include <vector>

#include "autograd/program/recorded_graphs.h"
#include "tensor/program/program_data.h"

namespace moonlet::program {

// All but the forward pass itself and the tensors. Its results are made ones alone.
std::string gradients_to_json(const RecordedGraphs& graphs);

// What `data.graph` and `data.gradients` say. Every number of the text is checked against the
// graph, and each graph as those of programs are; throws Error naming what does not fit.
RecordedGraphs gradients_from_json(const ProgramData& data, std::vector<Tensor> parameters);

}  // namespace moonlet::program
