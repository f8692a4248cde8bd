// tensor/program/passes/effects.cpp: one walk over the nodes, and questions about ranges of bytes.
#include "tensor/program/passes/effects.h"

#include <algorithm>

#include "tensor/core/layout.h"
#include "tensor/pointwise/run.h"

namespace moonlet::program {

namespace {

// The bytes of its buffer that a value reaches, [first, last).
struct Extent {
  int64_t first, last;
};
Extent extent(const Value& v) {
  const auto size = static_cast<int64_t>(size_of(v.dtype));
  int64_t reach = 1;
  for (int d = 0; d < v.sizes.size(); ++d) {
    if (v.sizes[d] == 0) return {0, 0};
    reach += (v.sizes[d] - 1) * v.strides[d];
  }
  return {v.offset * size, (v.offset + reach) * size};
}

}  // namespace

Effects::Effects(const Graph& graph)
    : graph_(graph),
      accesses_(graph.buffers.size()),
      makers_(graph.buffers.size(), kNone),
      givers_(graph.values.size(), kNone),
      users_(graph.values.size()),
      is_output_(graph.values.size()),
      holds_output_(graph.buffers.size()) {
  const int count = static_cast<int>(graph.nodes.size());
  for (int at = 0; at < count; ++at) add_node(at);
  for (const ValueId id : graph.outputs) {
    is_output_[id] = true;
    holds_output_[graph.values[id].buffer] = true;
    accesses_[graph.values[id].buffer].push_back({count, id, true, false, false});
  }
}

void Effects::add_node(int at) {
  const Node& node = graph_.nodes[at];
  const auto access = [&](ValueId id, bool reads, bool writes, bool makes) {
    accesses_[graph_.values[id].buffer].push_back({at, id, reads, writes, makes});
  };
  each_argument(node, [&](ValueId id) {
    if (users_[id].empty() || users_[id].back() != at) users_[id].push_back(at);
  });
  const bool view = is_view(node);
  if (!view) {
    each_argument(node, [&](ValueId id) { access(id, true, false, false); });
    each_written(node, [&](ValueId id) { access(id, false, true, false); });
  }
  if (node.form != OpInfo::Form::Plain) return;
  std::vector<ValueId> arguments;
  each_argument(node, [&](ValueId id) { arguments.push_back(id); });
  each_result(node, [&](ValueId id) {
    if (givers_[id] == kNone && std::ranges::find(arguments, id) == arguments.end())
      givers_[id] = at;
    const BufferId buffer = graph_.values[id].buffer;
    const bool known = graph_.buffers[buffer].kind != Buffer::Kind::Internal ||
                       !accesses_[buffer].empty() || makers_[buffer] != kNone;
    if (view || (known && makers_[buffer] != at)) return;
    makers_[buffer] = at;
    access(id, false, true, true);
  });
}

bool Effects::is_written(ValueId value, int after, int before) const {
  return std::ranges::any_of(of(graph_.values[value].buffer), [&](const Access& a) {
    return a.writes && a.node > after && a.node < before && may_share(graph_, a.value, value);
  });
}

bool Effects::is_ever_written(BufferId buffer) const {
  return std::ranges::any_of(of(buffer), [](const Access& a) { return a.writes && !a.makes; });
}

int Effects::last_access(BufferId buffer) const {
  return of(buffer).empty() ? kNone : of(buffer).back().node;
}

bool may_share(const Graph& graph, ValueId a, ValueId b) {
  const Value &x = graph.values[a], &y = graph.values[b];
  if (x.buffer != y.buffer) return false;
  const Extent p = extent(x), q = extent(y);
  return p.first < q.last && q.first < p.last;
}

bool fills_buffer(const Graph& graph, ValueId value) {
  const Value& v = graph.values[value];
  const Extent all = extent(v);
  return is_dense(v.sizes, v.strides) && all.first == 0 &&
         all.last == graph.buffers[v.buffer].bytes;
}

bool same_geometry(const Value& a, const Value& b) {
  return a.dtype == b.dtype && a.offset == b.offset && a.sizes == b.sizes && a.strides == b.strides;
}

bool checks_elements(const Graph& graph, const Node& node) {
  if (node.op->pointwise != nullptr) {
    // Division of integers by zero.
    bool integers = false;
    each_argument(node, [&](ValueId id) { integers |= !is_floating(graph.values[id].dtype); });
    return node.op->checks && integers;
  }
  return node.op->checks;
}

bool is_pure(const Graph& graph, const Node& node) {
  if (node.form != OpInfo::Form::Plain || node.op->random || is_view(node) || node.numbers != kNone)
    return false;
  bool writes_any = false;
  each_written(node, [&](ValueId) { writes_any = true; });
  return !writes_any && !checks_elements(graph, node);
}

}  // namespace moonlet::program
