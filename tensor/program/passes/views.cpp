// tensor/program/passes/views.cpp: one value for views that look the same, one view for a view of a
// view. Nothing runs for a view: this is for who reads a graph, and for passes that compare values.
#include <map>

#include "tensor/core/views.h"
#include "tensor/program/passes/effects.h"
#include "tensor/program/passes/passes.h"
#include "tensor/program/passes/rewrite.h"

namespace moonlet::program {

namespace {

// Whether each run gives the same view.
bool is_fixed_view(const Node& node) { return is_view(node) && node.numbers == kNone; }

// The values of a buffer that are known so far.
class Known {
 public:
  explicit Known(const Graph& graph) : graph_(graph), by_buffer_(graph.buffers.size()) {}
  void add(ValueId id) { by_buffer_[graph_.values[id].buffer].push_back(id); }
  ValueId like(ValueId id) const {
    for (const ValueId each : by_buffer_[graph_.values[id].buffer])
      if (same_geometry(graph_.values[each], graph_.values[id])) return each;
    return kNone;
  }

 private:
  const Graph& graph_;
  std::vector<std::vector<ValueId>> by_buffer_;
};

bool merge_equal(Graph& graph) {
  const Effects effects(graph);
  Substitution standing(graph);
  Known known(graph);
  for (const ValueId id : graph.inputs) known.add(id);
  for (const Parameter& each : graph.parameters) known.add(each.value);
  std::vector<bool> dead(graph.nodes.size());
  bool any = false;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    Node& node = graph.nodes[i];
    standing.apply(node);
    const ValueId view = is_fixed_view(node) ? only_result(node) : kNone;
    const ValueId same = view == kNone ? kNone : known.like(view);
    if (same != kNone && same != view && !effects.is_output(view)) {
      standing.set(view, same);
      dead[i] = any = true;
      continue;
    }
    each_result(node, [&](ValueId id) {
      if (effects.giver(id) == static_cast<int>(i)) known.add(id);
    });
  }
  if (any) remove_nodes(graph, dead);
  return any;
}

bool is_permutation(const Node& node) {
  const std::string_view name = node.op->name;
  return name == "permute" || name == "transpose" || name == "t";
}

// The dims of the argument in the order in which the node puts them.
Dims permutation(const Graph& graph, const Node& node) {
  const std::string_view name = node.op->name;
  if (name == "permute") return std::get<Dims>(std::get<BoxedValue>(node.arguments[1]));
  const int rank = graph.values[only_result(node)].sizes.size();
  Dims out;
  for (int d = 0; d < rank; ++d) out.push_back(d);
  if (rank < 2) return out;
  const bool two = name == "t";
  const auto dim = [&](int i) {
    return two ? i - 1 : std::get<int64_t>(std::get<BoxedValue>(node.arguments[i]));
  };
  const int64_t a = dim(1), b = dim(2);
  std::swap(out[static_cast<int>(a)], out[static_cast<int>(b)]);
  return out;
}

// Makes `node`, a view of what `inner` gives, a view of what `inner` views.
bool join(const Graph& graph, Node& node, const Node& inner) {
  const ValueId base = tensor_argument(inner, 0);
  if (base == kNone) return false;
  if (is_permutation(node) && is_permutation(inner)) {
    const Dims outer = permutation(graph, node), before = permutation(graph, inner);
    Dims both;
    for (int d = 0; d < outer.size(); ++d) both.push_back(before[static_cast<int>(outer[d])]);
    node = {find_raw_op("permute"),
            OpInfo::Form::Plain,
            {ValueRef{base}, BoxedValue(both)},
            node.results,
            node.line};
    return true;
  }
  const auto is = [](const Node& n, std::string_view name) { return n.op->name == name; };
  if (!is(node, "view") || !is(inner, "view")) return false;
  const Value &from = graph.values[base], &to = graph.values[only_result(node)];
  if (views::view_strides(from.sizes, from.strides, to.sizes) != to.strides) return false;
  node.arguments = {ValueRef{base}, BoxedValue(to.sizes)};
  return true;
}

bool join_chains(Graph& graph) {
  const Effects effects(graph);
  bool any = false;
  for (Node& node : graph.nodes) {
    if (!is_fixed_view(node)) continue;
    const ValueId x = tensor_argument(node, 0);
    const int giver = x == kNone ? kNone : effects.giver(x);
    if (giver != kNone && is_fixed_view(graph.nodes[giver]))
      any = join(graph, node, graph.nodes[giver]) || any;
  }
  return any;
}

}  // namespace

bool merge_views(Graph& graph) {
  const bool merged = merge_equal(graph);
  return join_chains(graph) || merged;
}

}  // namespace moonlet::program
