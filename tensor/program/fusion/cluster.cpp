// tensor/program/fusion/cluster.cpp: which nodes can be one loop.
#include "tensor/program/fusion/cluster.h"

#include <algorithm>

#include "tensor/program/fusion/executor.h"
#include "tensor/program/fusion/loop_builder.h"

namespace moonlet::program {

namespace {

uint64_t bit_of(BufferId buffer) { return uint64_t{1} << (static_cast<uint64_t>(buffer) % 64); }

}  // namespace

GraphUses::GraphUses(const Graph& g)
    : graph(g), loop_nodes(g.nodes.size()), users(g.buffers.size()), stays(g.buffers.size()) {
  for (size_t b = 0; b < g.buffers.size(); ++b)
    stays[b] = g.buffers[b].kind != Buffer::Kind::Internal;
  for (const ValueId id : g.outputs) stays[g.values[id].buffer] = true;
  std::vector<BufferId> used;
  for (size_t i = 0; i < g.nodes.size(); ++i) {
    if (is_view(g.nodes[i])) continue;
    used.clear();
    const auto use = [&](ValueId id) { used.push_back(g.values[id].buffer); };
    each_argument(g.nodes[i], use);
    each_result(g.nodes[i], use);
    std::sort(used.begin(), used.end());
    used.erase(std::unique(used.begin(), used.end()), used.end());
    for (const BufferId b : used) ++users[b];
    loop_nodes[i] = loop_node(g, g.nodes[i]);
    if (loop_nodes[i] && !has_executor(g.buffers[loop_nodes[i]->out.buffer].device.type))
      loop_nodes[i].reset();
  }
}

Cluster::Cluster(const GraphUses& uses, int32_t node) : uses_(&uses), nodes_{node} {
  const Graph& graph = uses.graph;
  if (const auto& loop = uses.loop_nodes[node]) {
    is_loop_ = true;
    device_ = graph.buffers[loop->out.buffer].device;
    extent_ = loop->extent;
    for (int i = 0; i < loop->inputs; ++i)
      if (!loop->in[i].is_number) add_access(loop->in[i].elements, false);
    add_access(loop->out, true);
    return;
  }
  const Node& n = graph.nodes[node];
  each_argument(n, [&](ValueId id) { add_access(reach_of(graph, id), false); });
  each_written(n, [&](ValueId id) { add_access(reach_of(graph, id), true); });
  if (n.form == OpInfo::Form::Plain)
    each_result(n, [&](ValueId id) { add_access(reach_of(graph, id), true); });
}

void Cluster::add_access(const Elements& elements, bool is_write) {
  touched_ |= bit_of(elements.buffer);
  if (is_write) written_ |= bit_of(elements.buffer);
  for (Access& each : accesses_) {
    if (!is_loop_ || !same_elements(each.elements, elements, extent_.ndim)) continue;
    each.is_write = each.is_write || is_write;
    return;
  }
  accesses_.push_back({elements, is_write});
}

bool Cluster::conflicts(const Cluster& other) const {
  if (((written_ & other.touched_) | (touched_ & other.written_)) == 0) return false;
  for (const Access& a : accesses_)
    for (const Access& b : other.accesses_)
      if ((a.is_write || b.is_write) && a.elements.overlaps(b.elements)) return true;
  return false;
}

// Whether to run both at once saves reading or writing something.
bool Cluster::shares_elements(const Cluster& other) const {
  const auto is_constant = [&](const Elements& e) {
    return std::all_of(e.strides, e.strides + extent_.ndim, [](int64_t s) { return s == 0; });
  };
  for (const Access& a : accesses_)
    for (const Access& b : other.accesses_)
      if (same_elements(a.elements, b.elements, extent_.ndim) &&
          (extent_.ndim == 0 || !is_constant(a.elements)))
        return true;
  return false;
}

void Cluster::refine_to(const Extent& extent) {
  for (Access& each : accesses_) refine(extent_, extent, each.elements.strides);
  extent_ = extent;
}

std::optional<Cluster> Cluster::merged(const Cluster& other) const {
  if (!is_loop_ || !other.is_loop_ || (touched_ & other.touched_) == 0) return {};
  // A store may take a copy of its own.
  constexpr size_t kMaxNodes = Loop::kMaxOps - Loop::kMaxOperands;
  if (!(device_ == other.device_) || nodes_.size() + other.nodes_.size() > kMaxNodes) return {};
  const std::optional<Extent> extent = common_extent(extent_, other.extent_);
  if (!extent) return {};
  Cluster out = *this, second = other;
  out.refine_to(*extent);
  second.refine_to(*extent);
  if (!out.shares_elements(second)) return {};
  for (const Access& a : out.accesses_)
    for (const Access& b : second.accesses_)
      if ((a.is_write || b.is_write) && a.elements.overlaps(b.elements) &&
          !same_elements(a.elements, b.elements, extent->ndim))
        return {};
  std::vector<int32_t> nodes;
  std::merge(nodes_.begin(), nodes_.end(), other.nodes_.begin(), other.nodes_.end(),
             std::back_inserter(nodes));
  out.nodes_ = std::move(nodes);
  for (const Access& b : second.accesses_) out.add_access(b.elements, b.is_write);
  if (out.accesses_.size() > Loop::kMaxOperands && !fits(*uses_, out.nodes_, *extent)) return {};
  return out;
}

}  // namespace moonlet::program
