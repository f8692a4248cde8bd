// tensor/program/subgraph.cpp: which nodes some values need, and the numbers that values and
// buffers have in a part of a graph.
#include "tensor/program/subgraph.h"

#include <algorithm>

#include "tensor/core/error.h"

namespace moonlet::program {

namespace {

bool changes_given_memory(const Graph& graph, const Node& node) {
  bool found = false;
  each_written(node, [&](ValueId id) {
    const Buffer& buffer = graph.buffers[graph.values[id].buffer];
    found = found || buffer.kind != Buffer::Kind::Internal;
  });
  return found;
}

// What is needed so far, from the end of a graph on.
class Needs {
 public:
  explicit Needs(const Graph& graph)
      : graph_(graph), values_(graph.values.size()), buffers_(graph.buffers.size()) {}

  void add(ValueId id) {
    values_[id] = true;
    buffers_[graph_.values[id].buffer] = true;
  }
  // A view is needed for itself, all else for the memory that it makes or changes.
  bool met_by(const Node& node) const {
    bool found = false;
    const bool view = is_view(node);
    each_result(node, [&](ValueId id) {
      found = found || (view ? values_[id] : buffers_[graph_.values[id].buffer]);
    });
    if (!view)
      each_written(node, [&](ValueId id) { found = found || buffers_[graph_.values[id].buffer]; });
    return found;
  }

 private:
  const Graph& graph_;
  std::vector<bool> values_, buffers_;
};

// Values and buffers of the whole as those of the part.
class Renumbering {
 public:
  Renumbering(const Graph& whole, Graph& part)
      : whole_(whole),
        part_(part),
        values_(whole.values.size(), kNone),
        buffers_(whole.buffers.size(), kNone) {}

  void add_input(ValueId id, bool apart) {
    if (values_[id] == kNone) {
      const BufferId old = whole_.values[id].buffer;
      const BufferId own = apart ? new_buffer(old) : buffer(old);
      part_.buffers[own].kind = Buffer::Kind::Input;
      add_value(id, own);
    }
    part_.inputs.push_back(values_[id]);
  }
  bool knows(ValueId id) const { return values_[id] != kNone; }
  void add_on_own_buffer(ValueId id) { add_value(id, buffer(whole_.values[id].buffer)); }
  ValueId value(ValueId id) const {
    check(values_[id] != kNone, "program: a part of a graph uses a value that it is not given");
    return values_[id];
  }
  void add_node(const Node& node);

 private:
  BufferId new_buffer(BufferId old) {
    part_.buffers.push_back(whole_.buffers[old]);
    return static_cast<BufferId>(part_.buffers.size()) - 1;
  }
  BufferId buffer(BufferId old) {
    if (buffers_[old] == kNone) buffers_[old] = new_buffer(old);
    return buffers_[old];
  }
  void add_value(ValueId id, BufferId on) {
    values_[id] = static_cast<ValueId>(part_.values.size());
    part_.values.push_back(whole_.values[id]);
    part_.values.back().buffer = on;
  }
  void add_result(const Node& node, ValueId id);
  void renumber(ValueRef& ref) const {
    if (ref.id != kNone) ref.id = value(ref.id);
  }

  const Graph& whole_;
  Graph& part_;
  std::vector<ValueId> values_;
  std::vector<BufferId> buffers_;
};

// Lies where the argument does whose memory it is on, if there is one.
void Renumbering::add_result(const Node& node, ValueId id) {
  if (values_[id] != kNone) return;
  const BufferId old = whole_.values[id].buffer;
  BufferId on = kNone;
  each_argument(node, [&](ValueId a) {
    if (on == kNone && whole_.values[a].buffer == old) on = part_.values[value(a)].buffer;
  });
  add_value(id, on == kNone ? buffer(old) : on);
}

void Renumbering::add_node(const Node& node) {
  Node copy = node;
  for (Argument& a : copy.arguments) {
    if (auto* one = std::get_if<ValueRef>(&a)) renumber(*one);
    if (auto* list = std::get_if<ValueRefs>(&a))
      for (ValueRef& each : *list) renumber(each);
  }
  each_result(node, [&](ValueId id) { add_result(node, id); });
  for (Result& r : copy.results) {
    if (auto* one = std::get_if<ValueRef>(&r)) renumber(*one);
    if (auto* list = std::get_if<ValueRefs>(&r))
      for (ValueRef& each : *list) renumber(each);
  }
  part_.nodes.push_back(std::move(copy));
}

bool is_argument(const Node& node, ValueId id) {
  bool found = false;
  each_argument(node, [&](ValueId a) { found = found || a == id; });
  return found;
}

// By value: those of new memory, which no node makes, that these nodes alone write.
std::vector<bool> new_memory(const Graph& whole, std::span<const int32_t> nodes) {
  std::vector<bool> made(whole.values.size()), outside(whole.buffers.size()), out(made.size());
  size_t next = 0;
  for (size_t i = 0; i < whole.nodes.size(); ++i) {
    const Node& node = whole.nodes[i];
    each_result(node, [&](ValueId id) { made[id] = made[id] || !is_argument(node, id); });
    if (next < nodes.size() && nodes[next] == static_cast<int32_t>(i))
      ++next;
    else
      each_written(node, [&](ValueId id) { outside[whole.values[id].buffer] = true; });
  }
  for (const int32_t i : nodes)
    each_argument(whole.nodes[i], [&](ValueId id) {
      const BufferId buffer = whole.values[id].buffer;
      out[id] =
          whole.buffers[buffer].kind == Buffer::Kind::Internal && !made[id] && !outside[buffer];
    });
  return out;
}

}  // namespace

std::vector<int32_t> needed_nodes(const Graph& whole, size_t first, size_t last,
                                  std::span<const ValueId> outputs, bool effects) {
  Needs needs(whole);
  for (const ValueId id : outputs) needs.add(id);
  std::vector<int32_t> out;
  for (size_t i = last; i-- > first;) {
    const Node& node = whole.nodes[i];
    const bool acts = effects && (node.op->random || changes_given_memory(whole, node));
    if (!acts && !needs.met_by(node)) continue;
    each_argument(node, [&](ValueId id) { needs.add(id); });
    out.push_back(static_cast<int32_t>(i));
  }
  std::reverse(out.begin(), out.end());
  return out;
}

std::vector<ValueId> free_values(const Graph& whole, std::span<const int32_t> nodes,
                                 std::span<const ValueId> outputs) {
  std::vector<bool> known = new_memory(whole, nodes);
  std::vector<ValueId> out;
  const auto use = [&](ValueId id) {
    if (!known[id]) out.push_back(id);
    known[id] = true;
  };
  for (const int32_t i : nodes) {
    each_argument(whole.nodes[i], use);
    each_result(whole.nodes[i], [&](ValueId id) { known[id] = true; });
  }
  for (const ValueId id : outputs) use(id);
  return out;
}

Graph subgraph(const Graph& whole, std::span<const int32_t> nodes, std::span<const ValueId> inputs,
               std::span<const ValueId> outputs, bool apart) {
  Graph part;
  part.lines = whole.lines;
  Renumbering numbers(whole, part);
  for (const ValueId id : inputs) numbers.add_input(id, apart);
  const std::vector<ValueId> used = free_values(whole, nodes, outputs);
  for (const Parameter& p : whole.parameters) {
    if (numbers.knows(p.value) || std::find(used.begin(), used.end(), p.value) == used.end())
      continue;
    numbers.add_on_own_buffer(p.value);
    part.parameters.push_back({numbers.value(p.value), p.tensor, p.name});
  }
  const std::vector<bool> made = new_memory(whole, nodes);
  for (size_t id = 0; id < made.size(); ++id)
    if (made[id] && !numbers.knows(static_cast<ValueId>(id)))
      numbers.add_on_own_buffer(static_cast<ValueId>(id));
  for (const int32_t i : nodes) numbers.add_node(whole.nodes[i]);
  for (const ValueId id : outputs) part.outputs.push_back(numbers.value(id));
  return part;
}

}  // namespace moonlet::program
