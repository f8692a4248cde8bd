// autograd/transform_results.cpp: what leaves a transform of functions: whether it has to be
// recorded for others, its form without histories, and where gradients start.
#include <unordered_set>

#include "autograd/forward_mode.h"
#include "autograd/history.h"
#include "autograd/uses_transform_results.h"
#include "tensor/runtime/batched.h"

namespace moonlet {

bool values_require_grad(const Tensor& x) {
  const Batched* b = batched(x);
  return b && (b->value.requires_grad() || values_require_grad(b->value));
}

Tensor filled_as(const Tensor& y, double number) {
  const Batched* b = batched(y);
  return b && b->dim == kNotBatched
             ? make_batched(filled_as(b->value, number), kNotBatched, b->level)
             : full_like(y, number);
}

Tensor stripped(const Tensor& y) {
  Tensor out = shallow_copy(y);
  const AutogradMeta* meta = meta_of(y);
  if (!meta || !meta->tangents) return out;
  auto tangents = memory::make_shared<Tangents>();
  for (const auto& [level, tangent] : meta->tangents->all)
    tangents->all.emplace_back(level, stripped(tangent));
  ensure_meta(out).tangents = std::move(tangents);
  return out;
}

namespace {
// Calls `visit` with x, its tangents, theirs and so on.
template <class F>
void with_tangents(const Tensor& x, const F& visit) {
  visit(x);
  const AutogradMeta* meta = meta_of(x);
  if (!meta || !meta->tangents) return;
  const std::shared_ptr<const Tangents> tangents = meta->tangents;
  for (const auto& entry : tangents->all) with_tangents(entry.second, visit);
}
}  // namespace

bool needs_graph(const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs) {
  if (!grad_enabled()) return false;
  std::unordered_set<Node*> own;
  for (const Tensor& x : inputs)
    if (is_leaf(x)) own.insert(edge_of(x).node.get());
  std::vector<NodeRef> order;
  std::unordered_set<Node*> seen;
  const auto visit = [&](const Edge& edge) {
    if (edge && seen.insert(edge.node.get()).second) order.push_back(edge.node);
  };
  bool outside = false;
  for (const Tensor& y : outputs)
    with_tangents(y, [&](const Tensor& t) {
      outside = outside || values_require_grad(t);
      visit(edge_of(t));
    });
  if (outside) return true;
  for (size_t i = 0; i < order.size(); ++i) {
    const NodeRef node = order[i];
    if (node->edges.empty() && !own.contains(node.get())) return true;
    for (const Edge& edge : node->edges) visit(edge);
  }
  return false;
}

}  // namespace moonlet
