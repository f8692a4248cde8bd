// tensor/program/fusion/group.h: which nodes of a graph run together as one loop.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tensor/program/fusion/loop.h"
#include "tensor/program/graph.h"

namespace moonlet::program {

struct GraphUses;

// One node, or several as a loop.
struct Group {
  std::vector<int32_t> nodes;   // in the order of the graph
  std::optional<Loop> loop;     // of several nodes
  std::vector<BufferId> slots;  // the buffer of each slot of the loop
};

// All nodes but views, each once, in an order in which they can run: another one than the graph's,
// of the same effect. A buffer that is in no loop's slots and used by no node alone needs no
// memory. Buffers in the slots of one loop must lie apart.
std::vector<Group> group(const Graph& graph);
std::vector<Group> group(const GraphUses& uses);

// The nodes of each group, by name, and loops as text.
std::string to_string(const Graph& graph, const std::vector<Group>& groups);

}  // namespace moonlet::program
