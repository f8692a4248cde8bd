// tensor/program/fusion/loop_node.cpp: reads nodes as ops of loops, and relates their shapes.
#include "tensor/program/fusion/loop_node.h"

#include <algorithm>
#include <cstring>

#include "tensor/core/geometry.h"
#include "tensor/pointwise/dtypes.h"

namespace moonlet::program {

namespace {

int64_t bytes_of(DType dtype) { return static_cast<int64_t>(size_of(dtype)); }

// A value as elements over the dimensions of a shape that it broadcasts to, the last one first.
Elements elements_of(const Graph& graph, ValueId id, const Dims& shape) {
  const Value& v = graph.values[id];
  Elements e = reach_of(graph, id);
  const int rank = v.sizes.size();
  for (int d = 0; d < shape.size(); ++d) {
    const int at = rank - 1 - d;
    e.strides[d] = at >= 0 && v.sizes[at] != 1 ? v.strides[at] * bytes_of(v.dtype) : 0;
  }
  return e;
}

const Scalar* number_of(const Argument& argument, Scalar& held) {
  const auto* value = std::get_if<BoxedValue>(&argument);
  if (!value) return nullptr;
  if (const auto* scalar = std::get_if<Scalar>(value)) return held = *scalar, &held;
  if (const auto* integer = std::get_if<int64_t>(value)) return held = *integer, &held;
  if (const auto* number = std::get_if<double>(value)) return held = *number, &held;
  if (const auto* truth = std::get_if<bool>(value)) return held = *truth, &held;
  return nullptr;
}

// Adds an argument as an input. False for what is neither a tensor nor a number.
bool add_input(const Graph& graph, const Argument& argument, const Dims& shape, LoopNode& to) {
  if (to.inputs == kMaxPointwiseInputs) return false;
  LoopNode::Input& in = to.in[to.inputs++];
  if (const auto* one = std::get_if<ValueRef>(&argument)) {
    if (one->id == kNone || !can_expand(graph.values[one->id].sizes, shape)) return false;
    in.elements = elements_of(graph, one->id, shape);
    return true;
  }
  in.is_number = number_of(argument, in.number) != nullptr;
  return in.is_number;
}

bool read_pointwise(const Graph& graph, const Node& node, const Dims& shape, LoopNode& to) {
  const int outs = node.form == OpInfo::Form::Out ? 1 : 0;
  for (int i = outs; i < static_cast<int>(node.arguments.size()); ++i) {
    if ((node.op->tensors >> (i - outs) & 1u) != 0) {
      if (!add_input(graph, node.arguments[i], shape, to)) return false;
      continue;
    }
    Scalar number;
    if (!number_of(node.arguments[i], number)) return false;
    to.params.push_back(number);
  }
  to.op = node.op->pointwise;
  return true;
}

// Copies of elements: the row, and which argument is copied.
struct Copy {
  std::string_view row;
  int source;
};
constexpr Copy kCopies[] = {{"clone", 0}, {"convert", 0}, {"copy", 1}, {"fill", 1}};

bool read_copy(const Graph& graph, const Node& node, const Dims& shape, LoopNode& to) {
  if (node.form == OpInfo::Form::Out) return false;
  for (const Copy& copy : kCopies)
    if (copy.row == node.op->name) return add_input(graph, node.arguments[copy.source], shape, to);
  return false;
}

// A tensor whose dtype and number of dimensions are those of a value, as far as they count when
// dtypes are promoted.
Operand likeness(const Value& v) {
  return Operand(empty_plain(v.sizes.empty() ? Dims{} : Dims{1}, {v.dtype, Device{}}, "program"));
}

bool find_dtypes(const Graph& graph, const Node& node, LoopNode& to) {
  if (!to.op) return true;
  std::vector<Operand> operands;
  operands.reserve(kMaxPointwiseInputs);
  const int outs = node.form == OpInfo::Form::Out ? 1 : 0;
  for (int i = outs; i < static_cast<int>(node.arguments.size()); ++i) {
    if ((node.op->tensors >> (i - outs) & 1u) == 0) continue;
    if (const auto* one = std::get_if<ValueRef>(&node.arguments[i])) {
      const Value& v = graph.values[one->id];
      const bool mask = (to.op->mask_args >> operands.size() & 1u) != 0;
      if (mask && v.dtype != DType::Bool) return false;  // bytes, which are cast first
      operands.push_back(likeness(v));
    } else {
      operands.emplace_back(to.in[operands.size()].number);
    }
  }
  const Operand* list[kMaxPointwiseInputs];
  for (size_t i = 0; i < operands.size(); ++i) list[i] = &operands[i];
  const PointwiseDTypes dtypes =
      pointwise_dtypes(*to.op, std::span(list, operands.size()), to.params);
  to.compute = dtypes.compute;
  return node.form != OpInfo::Form::Plain || dtypes.result == to.out.dtype;
}

// Sorts the dimensions as they lie in memory and joins them.
void collapse(const Dims& shape, LoopNode& node) {
  Extent& extent = node.extent;
  for (int d = 0; d < shape.size(); ++d) extent.sizes[d] = shape[shape.size() - 1 - d];
  extent.ndim = collapse_sorted_dims<Innermost::First>(shape.size(), extent.sizes, [&](auto&& f) {
    f(node.out.strides);
    for (int i = 0; i < node.inputs; ++i)
      if (!node.in[i].is_number) f(node.in[i].elements.strides);
  });
  const auto clear = [&](Elements& e) {
    std::fill(e.strides + extent.ndim, e.strides + kMaxDims, 0);
  };
  clear(node.out);
  for (int i = 0; i < node.inputs; ++i) clear(node.in[i].elements);
}

// Whether no element is read at another index than where it is written, nor written twice.
bool is_elementwise(const LoopNode& node) {
  for (int d = 0; d < node.extent.ndim; ++d)
    if (node.out.strides[d] == 0) return false;
  for (int i = 0; i < node.inputs; ++i) {
    const Elements& e = node.in[i].elements;
    if (!node.in[i].is_number && e.overlaps(node.out) &&
        !same_elements(e, node.out, node.extent.ndim))
      return false;
  }
  return true;
}

}  // namespace

int64_t Extent::numel() const {
  int64_t n = 1;
  for (int d = 0; d < ndim; ++d) n *= sizes[d];
  return n;
}

bool Extent::operator==(const Extent& other) const {
  return ndim == other.ndim && std::equal(sizes, sizes + ndim, other.sizes);
}

bool same_elements(const Elements& a, const Elements& b, int ndim) {
  return a.buffer == b.buffer && a.dtype == b.dtype && a.offset == b.offset &&
         std::equal(a.strides, a.strides + ndim, b.strides);
}

Elements reach_of(const Graph& graph, ValueId id) {
  const Value& v = graph.values[id];
  Elements e;
  e.buffer = v.buffer;
  e.dtype = v.dtype;
  e.offset = e.low = e.high = v.offset * bytes_of(v.dtype);
  for (int d = 0; d < v.sizes.size(); ++d) {
    if (v.sizes[d] == 0) return e.high = e.low = e.offset, e;
    const int64_t reach = (v.sizes[d] - 1) * v.strides[d] * bytes_of(v.dtype);
    (reach < 0 ? e.low : e.high) += reach;
  }
  e.high += bytes_of(v.dtype);
  return e;
}

std::optional<LoopNode> loop_node(const Graph& graph, const Node& node) {
  // The numbers of a loop do not change.
  if (is_view(node) || node.results.size() != 1 || node.op->random || node.numbers != kNone)
    return {};
  const auto* result = std::get_if<ValueRef>(&node.results[0]);
  if (!result || result->id == kNone) return {};
  const Dims& shape = graph.values[result->id].sizes;
  LoopNode made;
  made.out = elements_of(graph, result->id, shape);
  if (made.out.low == made.out.high) return {};
  const bool is_op = node.op->pointwise != nullptr;
  if (!(is_op ? read_pointwise(graph, node, shape, made) : read_copy(graph, node, shape, made)))
    return {};
  const Device device = graph.buffers[made.out.buffer].device;
  for (int i = 0; i < made.inputs; ++i)
    if (!made.in[i].is_number && !(graph.buffers[made.in[i].elements.buffer].device == device))
      return {};
  if (!find_dtypes(graph, node, made)) return {};
  if (!is_op) made.compute = made.out.dtype;
  collapse(shape, made);
  if (!is_elementwise(made)) return {};
  return made;
}

std::optional<Extent> common_extent(const Extent& a, const Extent& b) {
  Extent out;
  int i = 0, j = 0;
  int64_t left_a = a.ndim > 0 ? a.sizes[0] : 1, left_b = b.ndim > 0 ? b.sizes[0] : 1;
  while (i < a.ndim && j < b.ndim) {
    const int64_t size = std::min(left_a, left_b);
    if (left_a % size != 0 || left_b % size != 0 || out.ndim == kMaxDims) return {};
    out.sizes[out.ndim++] = size;
    left_a /= size;
    left_b /= size;
    if (left_a == 1 && ++i < a.ndim) left_a = a.sizes[i];
    if (left_b == 1 && ++j < b.ndim) left_b = b.sizes[j];
  }
  if (i < a.ndim || j < b.ndim) return {};
  return out;
}

void refine(const Extent& from, const Extent& to, int64_t* strides) {
  int64_t refined[kMaxDims] = {};
  int at = 0;
  int64_t done = 1;  // elements of dimension `at` that are spanned
  for (int d = 0; d < to.ndim; ++d) {
    refined[d] = strides[at] * done;
    done *= to.sizes[d];
    if (done == from.sizes[at]) done = 1, ++at;
  }
  std::memcpy(strides, refined, sizeof refined);
}

}  // namespace moonlet::program
