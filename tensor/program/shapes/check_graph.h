// tensor/program/shapes/check_graph.h: whether a graph may be run: for those that come from files,
// which may come from anybody.
#pragma once

#include "tensor/program/graph.h"

namespace moonlet::program {

// Throws Error naming the node and its op unless the graph is one that a capture could have
// written: all numbers of values and buffers are of such that there are and were made before their
// use, values lie in their buffers, arguments are of the kinds and number that ops take, what nodes
// give has the dtype, sizes, strides and memory that the graph says. Nothing is computed.
void check_graph(const Graph& graph, DType default_dtype);

}  // namespace moonlet::program
