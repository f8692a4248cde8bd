// tensor/program/dot.h: a graph as text for Graphviz: `dot -Tsvg`.
#pragma once

#include <string>
#include <vector>

#include "tensor/program/graph.h"

namespace moonlet::program {

// The nodes of a line of the script are in one frame. Edges say dtype and sizes and go from the
// last node that wrote what is read, so that changes in place are on the way. Inputs and outputs
// have names where any are given; "" is none.
std::string to_dot(const Graph& graph, const std::vector<std::string>& input_names = {},
                   const std::vector<std::string>& output_names = {});

}  // namespace moonlet::program
