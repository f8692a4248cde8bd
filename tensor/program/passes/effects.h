// tensor/program/passes/effects.h: who makes, reads and writes each buffer of a graph, and when:
// what every pass asks before it moves, merges or drops a node.
#pragma once

#include <vector>

#include "tensor/program/graph.h"

namespace moonlet::program {

// One node's access of memory. The outputs are read behind the last node. Views access nothing.
struct Access {
  int node;  // index into Graph::nodes; their number for an output
  ValueId value;
  bool reads, writes, makes;
};

// Valid until the graph changes.
class Effects {
 public:
  explicit Effects(const Graph& graph);

  // The accesses of a buffer, in the order of nodes.
  const std::vector<Access>& of(BufferId buffer) const { return accesses_[buffer]; }
  // The node that makes the buffer; kNone of inputs and parameters, and of memory that is first
  // written in place.
  int maker(BufferId buffer) const { return makers_[buffer]; }
  // The node that gives a value first, as a view or in memory of its own; kNone as above.
  int giver(ValueId value) const { return givers_[value]; }
  // The nodes that have the value among their arguments, each once.
  const std::vector<int>& users(ValueId value) const { return users_[value]; }
  // Whether the value itself is an output, and whether an output lies on the buffer.
  bool is_output(ValueId value) const { return is_output_[value]; }
  bool holds_output(BufferId buffer) const { return holds_output_[buffer]; }

  // Whether a node behind `after` and before `before` writes memory that the value may share.
  bool is_written(ValueId value, int after, int before) const;
  // Whether any node writes to the buffer that another one made, or that none made.
  bool is_ever_written(BufferId buffer) const;
  // The last node that reads or writes the buffer, the number of nodes where an output does; kNone.
  int last_access(BufferId buffer) const;

 private:
  void add_node(int at);

  const Graph& graph_;
  std::vector<std::vector<Access>> accesses_;
  std::vector<int> makers_, givers_;
  std::vector<std::vector<int>> users_;
  std::vector<bool> is_output_, holds_output_;
};

// Whether two values may have bytes in common.
bool may_share(const Graph& graph, ValueId a, ValueId b);
// Whether no two elements of a value share memory and they fill its buffer.
bool fills_buffer(const Graph& graph, ValueId value);
// Whether two values look the same on their buffers.
bool same_geometry(const Value& a, const Value& b);
// Whether a node may raise an error that depends on the elements it reads, as for an index out of
// range: it runs though nobody uses what it gives.
bool checks_elements(const Graph& graph, const Node& node);
// Whether a node is a plain op that gives new memory, the same of the same, and does nothing else:
// neither draws random numbers nor writes nor raises errors.
bool is_pure(const Graph& graph, const Node& node);

}  // namespace moonlet::program
