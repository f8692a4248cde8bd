// tensor/program/passes/rewrite.cpp: substitution of values, removal of nodes, numbering anew.
#include "tensor/program/passes/rewrite.h"

#include <bit>
#include <numeric>

namespace moonlet::program {

namespace {

// Calls f(ValueId&) for each tensor of a list of arguments or results.
template <class List, class F>
void each_id(List& list, F&& f) {
  for (auto& each : list) {
    if (auto* one = std::get_if<ValueRef>(&each)) {
      if (one->id != kNone) f(one->id);
    } else if (auto* many = std::get_if<ValueRefs>(&each)) {
      for (ValueRef& ref : *many)
        if (ref.id != kNone) f(ref.id);
    }
  }
}

bool same_number(double a, double b) {
  return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b);
}

bool same_boxed(const BoxedValue& a, const BoxedValue& b) {
  if (a.index() != b.index()) return false;
  return std::visit(
      [&]<class T>(const T& x) {
        const T& y = std::get<T>(b);
        if constexpr (std::is_same_v<T, Tensor> || std::is_same_v<T, std::vector<Tensor>>)
          return false;
        else if constexpr (std::is_same_v<T, std::monostate>)
          return true;
        else if constexpr (std::is_same_v<T, double>)
          return same_number(x, y);
        else if constexpr (std::is_same_v<T, std::vector<double>>)
          return std::equal(x.begin(), x.end(), y.begin(), y.end(), same_number);
        else if constexpr (std::is_same_v<T, Scalar>)
          return x.kind() == y.kind() &&
                 (x.is_int() ? x.to_int() == y.to_int()
                             : same_number(x.to_complex().real(), y.to_complex().real()) &&
                                   same_number(x.to_complex().imag(), y.to_complex().imag()));
        else if constexpr (std::is_same_v<T, Options>)
          return x.dtype == y.dtype && x.device == y.device;
        else
          return x == y;
      },
      a);
}

// Gives numbers in the order in which they are asked for.
class Numbers {
 public:
  explicit Numbers(size_t count) : by_old_(count, kNone) {}
  int32_t operator()(int32_t old) {
    if (by_old_[old] == kNone) {
      by_old_[old] = static_cast<int32_t>(kept_.size());
      kept_.push_back(old);
    }
    return by_old_[old];
  }
  // Those that got a number, by their new one.
  template <class T>
  std::vector<T> kept(const std::vector<T>& all) const {
    std::vector<T> out;
    for (const int32_t old : kept_) out.push_back(all[old]);
    return out;
  }

 private:
  std::vector<int32_t> by_old_, kept_;
};

}  // namespace

Substitution::Substitution(const Graph& graph) : by_value_(graph.values.size()) {
  std::iota(by_value_.begin(), by_value_.end(), 0);
}

ValueId Substitution::operator()(ValueId id) const {
  return id >= 0 && static_cast<size_t>(id) < by_value_.size() ? by_value_[id] : id;
}

void Substitution::set(ValueId from, ValueId to) { by_value_[from] = to; }

void Substitution::apply(Node& node) const {
  std::vector<ValueId> arguments;
  each_argument(node, [&](ValueId id) { arguments.push_back(id); });
  each_id(node.arguments, [&](ValueId& id) { id = (*this)(id); });
  each_id(node.results, [&](ValueId& id) {
    for (const ValueId argument : arguments)
      if (argument == id) {
        id = (*this)(id);
        return;
      }
  });
}

void Substitution::apply_to_outputs(Graph& graph) const {
  for (ValueId& id : graph.outputs) id = (*this)(id);
}

std::vector<std::vector<ValueId>> values_by_buffer(const Graph& graph) {
  std::vector<std::vector<ValueId>> out(graph.buffers.size());
  for (size_t i = 0; i < graph.values.size(); ++i)
    out[graph.values[i].buffer].push_back(static_cast<ValueId>(i));
  return out;
}

ValueId add_value_like(Graph& graph, ValueId like) {
  Value value = graph.values[like];
  Buffer buffer = graph.buffers[value.buffer];
  buffer.kind = Buffer::Kind::Internal;
  value.buffer = static_cast<BufferId>(graph.buffers.size());
  graph.buffers.push_back(buffer);
  graph.values.push_back(value);
  return static_cast<ValueId>(graph.values.size()) - 1;
}

void remove_nodes(Graph& graph, const std::vector<bool>& dead) {
  std::vector<Node> kept;
  kept.reserve(graph.nodes.size());
  for (size_t i = 0; i < graph.nodes.size(); ++i)
    if (!dead[i]) kept.push_back(std::move(graph.nodes[i]));
  graph.nodes = std::move(kept);
}

void compact(Graph& graph) {
  Numbers values(graph.values.size()), buffers(graph.buffers.size());
  const auto renumber = [&](ValueId& id) { id = values(id); };
  for (ValueId& id : graph.inputs) renumber(id);
  for (Parameter& each : graph.parameters) renumber(each.value);
  for (Node& node : graph.nodes) {
    each_id(node.arguments, renumber);
    each_id(node.results, renumber);
  }
  for (ValueId& id : graph.outputs) renumber(id);
  graph.values = values.kept(graph.values);
  for (Value& each : graph.values) each.buffer = buffers(each.buffer);
  graph.buffers = buffers.kept(graph.buffers);
}

bool same_argument(const Argument& a, const Argument& b) {
  if (a.index() != b.index()) return false;
  if (const auto* boxed = std::get_if<BoxedValue>(&a))
    return same_boxed(*boxed, std::get<BoxedValue>(b));
  if (const auto* one = std::get_if<ValueRef>(&a)) return *one == std::get<ValueRef>(b);
  return std::get<ValueRefs>(a) == std::get<ValueRefs>(b);
}

ValueId tensor_argument(const Node& node, int i) {
  if (i >= static_cast<int>(node.arguments.size())) return kNone;
  const auto* one = std::get_if<ValueRef>(&node.arguments[i]);
  return one == nullptr ? kNone : one->id;
}

ValueId only_result(const Node& node) {
  if (node.results.size() != 1) return kNone;
  const auto* one = std::get_if<ValueRef>(&node.results[0]);
  return one == nullptr ? kNone : one->id;
}

}  // namespace moonlet::program
