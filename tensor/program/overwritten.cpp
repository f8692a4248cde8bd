// tensor/program/overwritten.cpp: follows which elements of a buffer are written and read.
#include "tensor/program/overwritten.h"

#include <algorithm>
#include <iterator>
#include <string_view>

namespace moonlet::program {

namespace {

// Ops whose in-place form reads nothing of what it writes.
constexpr std::string_view kWriters[] = {"fill",   "copy",        "iota",           "uniform",
                                         "normal", "exponential", "bernoulli_fill", "random"};

// How many of its first arguments a node writes without reading them.
size_t count_targets(const Node& node) {
  if (node.form == OpInfo::Form::Out) return node.results.size();
  const bool writer =
      std::find(std::begin(kWriters), std::end(kWriters), node.op->name) != std::end(kWriters);
  return node.form == OpInfo::Form::InPlace && writer ? 1 : 0;
}

// Calls f(ValueId) for the tensors among the arguments from `begin` up to `end`.
template <class F>
void each_between(const Node& node, size_t begin, size_t end, F&& f) {
  for (size_t i = begin; i < end; ++i) {
    if (const auto* one = std::get_if<ValueRef>(&node.arguments[i])) {
      if (one->id != kNone) f(one->id);
    } else if (const auto* list = std::get_if<ValueRefs>(&node.arguments[i])) {
      for (const ValueRef& each : *list)
        if (each.id != kNone) f(each.id);
    }
  }
}

// Which elements of a buffer have been written.
class Written {
 public:
  // Memory of more elements is not looked at one by one.
  static constexpr int64_t kMost = int64_t{1} << 22;

  explicit Written(int64_t count) : elements_(static_cast<size_t>(count)) {}
  void mark(const Value& v) {
    each(v, [&](size_t at) {
      elements_[at] = true;
      return true;
    });
  }
  bool holds(const Value& v) {
    return each(v, [&](size_t at) -> bool { return elements_[at]; });
  }

 private:
  template <class F>
  bool each(const Value& v, F&& f, int dim = 0, int64_t at = 0) {
    if (dim == 0) at = v.offset;
    if (dim == v.sizes.size())
      return at >= 0 && at < static_cast<int64_t>(elements_.size()) && f(static_cast<size_t>(at));
    for (int64_t i = 0; i < v.sizes[dim]; ++i, at += v.strides[dim])
      if (!each(v, f, dim + 1, at)) return false;
    return true;
  }
  std::vector<bool> elements_;
};

// Of all values on the buffer; 0 when they differ.
size_t element_size(const Graph& graph, BufferId buffer) {
  size_t size = 0;
  for (const Value& v : graph.values) {
    if (v.buffer != buffer) continue;
    if (size != 0 && size_of(v.dtype) != size) return 0;
    size = size_of(v.dtype);
  }
  return size;
}

// Whether each element is written before it is read, and some node writes.
bool is_overwritten(const Graph& graph, BufferId buffer) {
  const size_t size = element_size(graph, buffer);
  if (size == 0) return false;
  const int64_t count = graph.buffers[buffer].bytes / static_cast<int64_t>(size);
  if (count > Written::kMost) return false;
  Written written(count);
  bool any = false, fits = true;
  const auto on_buffer = [&](ValueId id) { return graph.values[id].buffer == buffer; };
  for (const Node& node : graph.nodes) {
    if (is_view(node)) continue;
    const size_t targets = count_targets(node);
    each_between(node, targets, node.arguments.size(), [&](ValueId id) {
      if (on_buffer(id)) fits = fits && written.holds(graph.values[id]);
    });
    each_between(node, 0, targets, [&](ValueId id) {
      if (!on_buffer(id)) return;
      written.mark(graph.values[id]);
      any = true;
    });
  }
  for (const ValueId id : graph.outputs)
    if (on_buffer(id)) fits = fits && written.holds(graph.values[id]);
  return any && fits;
}

}  // namespace

std::vector<Tensor> adopt_overwritten(Graph& graph,
                                      const std::function<bool(const Tensor&)>& is_outside) {
  std::vector<Tensor> adopted;
  std::erase_if(graph.parameters, [&](const Parameter& p) {
    const BufferId buffer = graph.values[p.value].buffer;
    if (is_outside(p.tensor) || !is_overwritten(graph, buffer)) return false;
    graph.buffers[buffer].kind = Buffer::Kind::Internal;
    adopted.push_back(p.tensor);
    return true;
  });
  return adopted;
}

}  // namespace moonlet::program
