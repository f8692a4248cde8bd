// tensor/program/passes/activations.cpp: relu of what a convolution gives becomes part of it, where
// nothing else sees that: the results are written once, and the bits are the same.
#include <string_view>

#include "tensor/program/passes/effects.h"
#include "tensor/program/passes/passes.h"
#include "tensor/program/passes/rewrite.h"

namespace moonlet::program {

namespace {

class Activations {
 public:
  explicit Activations(Graph& graph) : graph_(graph), effects_(graph) {}

  bool run() {
    if (fused_ == nullptr) return false;
    std::vector<bool> dead(graph_.nodes.size());
    bool any = false;
    for (int at = 0; at < static_cast<int>(graph_.nodes.size()); ++at)
      if (merge(at)) dead[at] = any = true;
    if (any) remove_nodes(graph_, dead);
    return any;
  }

 private:
  // Makes the convolution in front of node `at`, a relu, one that gives what that gives.
  bool merge(int at) {
    const Node& relu = graph_.nodes[at];
    if (relu.op->name != std::string_view("relu") || relu.form != OpInfo::Form::Plain) return false;
    const ValueId x = tensor_argument(relu, 0), y = only_result(relu);
    const int giver = x == kNone || y == kNone ? kNone : effects_.giver(x);
    if (giver == kNone || runs_in_loop(at, y)) return false;
    Node& conv = graph_.nodes[giver];
    const BufferId buffer = graph_.values[x].buffer;
    if (conv.op->name != std::string_view("native_conv") || conv.form != OpInfo::Form::Plain ||
        only_result(conv) != x || effects_.holds_output(buffer) ||
        effects_.maker(buffer) != giver || effects_.of(buffer).size() != 2 ||
        !same_geometry(graph_.values[x], graph_.values[y]))
      return false;
    conv.op = fused_;
    conv.results = relu.results;
    return true;
  }

  // Whether a pointwise op that uses y follows before anything else runs: in one loop with it relu
  // costs no pass over memory.
  bool runs_in_loop(int at, ValueId y) const {
    for (size_t i = static_cast<size_t>(at) + 1; i < graph_.nodes.size(); ++i) {
      const Node& node = graph_.nodes[i];
      if (is_view(node)) continue;
      if (node.op->kind != OpKind::Pointwise) return false;
      bool uses = false;
      each_argument(node, [&](ValueId id) {
        uses = uses || graph_.values[id].buffer == graph_.values[y].buffer;
      });
      if (uses) return true;
    }
    return false;
  }

  Graph& graph_;
  const Effects effects_;                                       // of before
  const RawOp* const fused_ = find_raw_op("native_conv_relu");  // null in a build without it
};

}  // namespace

bool merge_activations(Graph& graph) { return Activations(graph).run(); }

}  // namespace moonlet::program
