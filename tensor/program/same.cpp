// tensor/program/same.cpp: compares graphs node by node, in the order in which they were captured.
#include "tensor/program/same.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string_view>
#include <vector>

#include "tensor/core/error.h"

namespace moonlet::program {

namespace {

bool equal(double a, double b) { return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b); }

bool equal(const Scalar& a, const Scalar& b) {
  if (a.kind() != b.kind()) return false;
  if (a.is_int()) return a.to_int() == b.to_int();
  const complex128 x = a.to_complex(), y = b.to_complex();
  return equal(x.real(), y.real()) && equal(x.imag(), y.imag());
}

bool equal(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i)
    if (!equal(a[i], b[i])) return false;
  return true;
}

}  // namespace

bool same(const BoxedValue& a, const BoxedValue& b) {
  if (a.index() != b.index()) return false;
  return std::visit(
      [&]<class T>(const T& x) {
        const T& y = std::get<T>(b);
        if constexpr (std::is_same_v<T, double> || std::is_same_v<T, Scalar> ||
                      std::is_same_v<T, std::vector<double>>)
          return equal(x, y);
        else if constexpr (std::is_same_v<T, Options>)
          return x.dtype == y.dtype && x.device == y.device;
        else if constexpr (std::is_same_v<T, Tensor> || std::is_same_v<T, std::vector<Tensor>>)
          return false;
        else
          return x == y;
      },
      a);
}

namespace {

bool equal(const Argument& a, const Argument& b) {
  if (a.index() != b.index()) return false;
  if (const auto* value = std::get_if<BoxedValue>(&a)) return same(*value, std::get<BoxedValue>(b));
  if (const auto* one = std::get_if<ValueRef>(&a)) return *one == std::get<ValueRef>(b);
  return std::get<ValueRefs>(a) == std::get<ValueRefs>(b);
}

bool equal(const Value& a, const Value& b) {
  return a.buffer == b.buffer && a.dtype == b.dtype && a.sizes == b.sizes &&
         a.strides == b.strides && a.offset == b.offset;
}

bool equal(const Buffer& a, const Buffer& b) {
  return a.kind == b.kind && a.device == b.device &&
         (a.kind != Buffer::Kind::Internal || a.bytes == b.bytes);
}

// Whether values and buffers of that number are the same in both; both graphs number them as they
// meet them.
bool equal_values(const Graph& a, const Graph& b, ValueId id) {
  const Value &x = a.values[id], &y = b.values[id];
  return equal(x, y) && equal(a.buffers[x.buffer], b.buffers[y.buffer]);
}

std::string line_of(const Graph& graph, const Node& node) {
  return node.line == kNone ? "" : graph.lines[node.line];
}

// Of a node whose numbers are given anew for each run.
bool varies(const Node& node, const Argument& argument) {
  return node.numbers != kNone && is_number(argument);
}

bool equal_nodes(const Graph& a, const Graph& b, size_t i) {
  const Node &x = a.nodes[i], &y = b.nodes[i];
  if (x.op != y.op || x.form != y.form || x.arguments.size() != y.arguments.size() ||
      x.results != y.results || x.numbers != y.numbers)
    return false;
  for (size_t k = 0; k < x.arguments.size(); ++k)
    if (!(varies(x, x.arguments[k]) && varies(y, y.arguments[k])) &&
        !equal(x.arguments[k], y.arguments[k]))
      return false;
  bool values = true;
  const auto look = [&](ValueId id) { values = values && equal_values(a, b, id); };
  each_argument(x, look);
  each_result(x, look);
  return values;
}

bool equal_elements(const Tensor& a, const Tensor& b) {
  if (!a.device().is_cpu() || !b.device().is_cpu()) return false;
  if (!a.is_contiguous() || !b.is_contiguous()) return false;
  return std::memcmp(a.raw(), b.raw(), static_cast<size_t>(a.numel()) * size_of(a.dtype())) == 0;
}

// Where a parameter is used first, for the message.
std::string line_of_parameter(const Graph& graph, ValueId value) {
  for (const Node& node : graph.nodes) {
    bool uses = false;
    each_argument(node, [&](ValueId id) { uses = uses || id == value; });
    if (uses) return line_of(graph, node);
  }
  return "";
}

std::optional<Difference> difference_of_parameters(const Graph& a, const Graph& b) {
  if (a.parameters.size() != b.parameters.size())
    return Difference{"it uses other tensors from outside", ""};
  for (size_t i = 0; i < a.parameters.size(); ++i) {
    const Parameter &x = a.parameters[i], &y = b.parameters[i];
    const auto at = [&] { return line_of_parameter(b, y.value); };
    if (x.value != y.value || !equal_values(a, b, x.value))
      return Difference{"it uses other tensors from outside", at()};
    if (x.tensor.is_same(y.tensor)) continue;
    const BufferId buffer = a.values[x.value].buffer;
    if (is_written(a, buffer))
      return Difference{"it changes a tensor in place that is another one in each call", at()};
    if (!equal_elements(x.tensor, y.tensor))
      return Difference{"it makes a tensor of numbers that differ from call to call", at()};
  }
  return std::nullopt;
}

std::string describe(const Graph& graph, size_t i) {
  return i < graph.nodes.size() ? graph.nodes[i].op->name : "the end";
}

}  // namespace

namespace {

// Whether values on the buffer may be moved together.
bool is_movable(const Graph& graph, BufferId buffer) {
  const Value* known = nullptr;
  for (const Value& v : graph.values) {
    if (v.buffer != buffer) continue;
    if (known != nullptr && known->dtype != v.dtype) return false;
    known = &v;
  }
  for (const Node& node : graph.nodes) {
    if (std::string_view(node.op->name) != "strided_view") continue;
    bool uses = false;
    each_argument(node, [&](ValueId id) { uses = uses || graph.values[id].buffer == buffer; });
    if (uses) return false;
  }
  return true;
}

}  // namespace

void normalize_inputs(Graph& graph, const std::function<void(size_t)>& pin) {
  std::vector<bool> done(graph.buffers.size());
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    const BufferId buffer = graph.values[graph.inputs[i]].buffer;
    if (!is_movable(graph, buffer)) {
      pin(i);
      continue;
    }
    if (done[buffer]) continue;
    done[buffer] = true;
    const int64_t first = graph.values[graph.inputs[i]].offset;
    for (Value& v : graph.values)
      if (v.buffer == buffer) v.offset -= first;
  }
}

bool is_written(const Graph& graph, BufferId buffer) {
  bool written = false;
  for (const Node& node : graph.nodes)
    each_written(node, [&](ValueId id) { written = written || graph.values[id].buffer == buffer; });
  return written;
}

std::optional<Difference> difference(const Graph& a, const Graph& b) {
  const size_t count = std::max(a.nodes.size(), b.nodes.size());
  for (size_t i = 0; i < count; ++i) {
    const bool both = i < a.nodes.size() && i < b.nodes.size();
    if (both && equal_nodes(a, b, i)) continue;
    const std::string line = i < b.nodes.size()   ? line_of(b, b.nodes[i])
                             : i < a.nodes.size() ? line_of(a, a.nodes[i])
                                                  : "";
    const std::string was = describe(a, i), is = describe(b, i);
    if (was != is) return Difference{text("it called ", was, " before and then ", is), line};
    return Difference{text(is, " had other arguments before"), line};
  }
  if (auto found = difference_of_parameters(a, b)) return found;
  if (a.inputs != b.inputs || a.outputs != b.outputs)
    return Difference{"it returns other tensors", ""};
  for (const auto* list : {&a.inputs, &a.outputs})
    for (const ValueId id : *list)
      if (!equal_values(a, b, id)) return Difference{"its tensors have other shapes", ""};
  return std::nullopt;
}

}  // namespace moonlet::program
