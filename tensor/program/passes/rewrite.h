// tensor/program/passes/rewrite.h: changes of a graph that passes have in common.
#pragma once

#include <vector>

#include "tensor/program/graph.h"

namespace moonlet::program {

// Which value stands for each one from now on. Values that are added later stand for themselves.
class Substitution {
 public:
  explicit Substitution(const Graph& graph);
  ValueId operator()(ValueId id) const;
  void set(ValueId from, ValueId to);
  // Puts what stands for them in the place of a node's arguments; of its results, where they are
  // arguments again.
  void apply(Node& node) const;
  void apply_to_outputs(Graph& graph) const;

 private:
  std::vector<ValueId> by_value_;
};

// The values of each buffer.
std::vector<std::vector<ValueId>> values_by_buffer(const Graph& graph);

// Adds a value of the geometry of another one on a buffer of its own, of the same size.
ValueId add_value_like(Graph& graph, ValueId like);
// Drops the nodes that are marked.
void remove_nodes(Graph& graph, const std::vector<bool>& dead);
// Drops values and buffers that nothing names, and numbers the others anew. Inputs, parameters and
// outputs stay in their order.
void compact(Graph& graph);

// Whether two arguments are the same, numbers to the last bit.
bool same_argument(const Argument& a, const Argument& b);
// The value of argument i if it is a tensor, else kNone.
ValueId tensor_argument(const Node& node, int i);
// The value of the only result, if there is one and it is a tensor, else kNone.
ValueId only_result(const Node& node);

}  // namespace moonlet::program
