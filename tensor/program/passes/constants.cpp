// tensor/program/passes/constants.cpp: runs what depends on constants alone, once.
#include <vector>

#include "tensor/program/interpret_raw.h"
#include "tensor/program/passes/effects.h"
#include "tensor/program/passes/passes.h"
#include "tensor/program/passes/rewrite.h"

namespace moonlet::program {

namespace {

class Constants {
 public:
  Constants(Graph& graph, int64_t bytes)
      : graph_(graph),
        effects_(graph),
        constant_(graph.buffers.size()),
        dead_(graph.nodes.size()),
        left_(bytes) {
    for (size_t i = 0; i < graph.buffers.size(); ++i)
      constant_[i] = graph.buffers[i].kind == Buffer::Kind::Parameter &&
                     !effects_.is_ever_written(static_cast<BufferId>(i));
  }

  bool run() {
    Memory memory(graph_);
    for (int at = 0; at < static_cast<int>(graph_.nodes.size()); ++at) {
      const Node& node = graph_.nodes[at];
      if (!is_constant(node, at)) continue;
      // Views of constants show what is constant, and stay for those that are no constants.
      memory.run(node);
      if (is_view(node)) continue;
      dead_[at] = true;
      each_result(node, [&](ValueId id) {
        constant_[graph_.values[id].buffer] = true;
        made_.push_back({id, memory.tensor(id), ""});
      });
    }
    for (Parameter& each : made_) {
      graph_.buffers[graph_.values[each.value].buffer].kind = Buffer::Kind::Parameter;
      if (is_used(each.value)) graph_.parameters.push_back(std::move(each));
    }
    if (!made_.empty()) remove_nodes(graph_, dead_);
    return !made_.empty();
  }

 private:
  bool is_constant(const Node& node, int at) {
    bool constant = is_view(node) || is_pure(graph_, node);
    each_argument(node,
                  [&](ValueId id) { constant = constant && constant_[graph_.values[id].buffer]; });
    if (!constant || is_view(node)) return constant;
    int64_t bytes = 0;
    each_result(node, [&](ValueId id) {
      const BufferId buffer = graph_.values[id].buffer;
      bytes += graph_.buffers[buffer].bytes;
      constant = constant && effects_.maker(buffer) == at && !effects_.holds_output(buffer) &&
                 !effects_.is_ever_written(buffer);
    });
    if (!constant || bytes > left_) return false;
    left_ -= bytes;
    return true;
  }

  // Whether something that runs, or a view of it, takes the value.
  bool is_used(ValueId id) const {
    for (const int user : effects_.users(id))
      if (!dead_[user]) return true;
    return false;
  }

  Graph& graph_;
  const Effects effects_;
  std::vector<bool> constant_, dead_;  // by buffer, by node
  std::vector<Parameter> made_;
  int64_t left_;
};

}  // namespace

bool fold_constants(Graph& graph, const PassOptions& options) {
  return options.parameters_constant && Constants(graph, options.constant_bytes).run();
}

}  // namespace moonlet::program
