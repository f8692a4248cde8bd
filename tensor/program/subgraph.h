// tensor/program/subgraph.h: a part of a graph as a graph of its own.
#pragma once

#include <span>
#include <vector>

#include "tensor/program/graph.h"

namespace moonlet::program {

// The nodes in [first, last) that the outputs need, in their order, and with `effects` those that
// change inputs or parameters or draw random numbers.
std::vector<int32_t> needed_nodes(const Graph& whole, size_t first, size_t last,
                                  std::span<const ValueId> outputs, bool effects);

// The values that are used by the nodes or are outputs, and that none of the nodes makes, each
// once.
std::vector<ValueId> free_values(const Graph& whole, std::span<const int32_t> nodes,
                                 std::span<const ValueId> outputs);

// The graph of those nodes. Free values must be parameters of the whole or among the inputs. With
// `apart` each input has a buffer of its own, as for values that are only read.
Graph subgraph(const Graph& whole, std::span<const int32_t> nodes, std::span<const ValueId> inputs,
               std::span<const ValueId> outputs, bool apart);

}  // namespace moonlet::program
