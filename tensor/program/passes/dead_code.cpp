// tensor/program/passes/dead_code.cpp: drops nodes that nothing depends on.
#include <vector>

#include "tensor/program/passes/effects.h"
#include "tensor/program/passes/passes.h"
#include "tensor/program/passes/rewrite.h"

namespace moonlet::program {

namespace {

// Walks back over the nodes. A buffer is read when a node behind, or an output, reads it: all its
// earlier writers are needed then. A value is named when a needed node has it as an argument.
class Liveness {
 public:
  explicit Liveness(const Graph& graph)
      : graph_(graph), read_(graph.buffers.size()), named_(graph.values.size()) {
    for (size_t i = 0; i < graph.buffers.size(); ++i)
      read_[i] = graph.buffers[i].kind != Buffer::Kind::Internal;
    for (const ValueId id : graph.outputs) need(id);
  }

  bool is_needed(const Node& node) const {
    bool needed = node.op->random || checks_elements(graph_, node);
    each_result(node, [&](ValueId id) { needed |= is_view(node) ? named_[id] : is_read(id); });
    each_written(node, [&](ValueId id) { needed |= is_read(id); });
    return needed;
  }
  void note(const Node& node) {
    each_argument(node, [&](ValueId id) {
      if (is_view(node))
        named_[id] = true;
      else
        need(id);
    });
  }

 private:
  bool is_read(ValueId id) const { return read_[graph_.values[id].buffer] || named_[id]; }
  void need(ValueId id) {
    named_[id] = true;
    read_[graph_.values[id].buffer] = true;
  }

  const Graph& graph_;
  std::vector<bool> read_, named_;
};

}  // namespace

bool drop_dead_code(Graph& graph) {
  Liveness liveness(graph);
  std::vector<bool> dead(graph.nodes.size());
  bool any = false;
  for (size_t i = graph.nodes.size(); i-- > 0;) {
    if (liveness.is_needed(graph.nodes[i]))
      liveness.note(graph.nodes[i]);
    else
      dead[i] = any = true;
  }
  if (any) remove_nodes(graph, dead);
  return any;
}

}  // namespace moonlet::program
