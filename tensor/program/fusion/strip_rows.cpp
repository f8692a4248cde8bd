// tensor/program/fusion/strip_rows.cpp: the ops that go row by row, and the bytes of their rows.
#include "tensor/program/fusion/strip_rows.h"

#include <algorithm>
#include <numeric>
#include <string_view>

#include "tensor/core/geometry.h"

namespace moonlet::program {

namespace {

using Kind = StripPart::Kind;

int64_t bytes_of(DType dtype) { return static_cast<int64_t>(size_of(dtype)); }

int64_t numel_of(const Dims& sizes) {
  int64_t n = 1;
  for (const int64_t size : sizes) n *= size;
  return n;
}

// How an argument names the dimensions that an op goes over, which must be the last ones: other
// orders of summation look at the number of rows.
enum class Over : uint8_t { None, Dim, Dims, Shape, Count };

// Ops of which each row's results are those of that row alone, whatever rows are computed with it.
// (norm is none: where one result leaves its range, all are computed again.)
struct RowOp {
  std::string_view name;
  uint32_t by_rows;  // the arguments that have rows, by bit
  Over over;
  int dims;  // the argument that names the dimensions
};
constexpr RowOp kRowOps[] = {
    {.name = "softmax", .by_rows = 1, .over = Over::Dim, .dims = 1},
    {.name = "log_softmax", .by_rows = 1, .over = Over::Dim, .dims = 1},
    {.name = "softmax_grad_x", .by_rows = 3, .over = Over::Dim, .dims = 2},
    {.name = "log_softmax_grad_x", .by_rows = 3, .over = Over::Dim, .dims = 2},
    {.name = "sum", .by_rows = 1, .over = Over::Dims, .dims = 1},
    {.name = "mean", .by_rows = 1, .over = Over::Dims, .dims = 1},
    {.name = "nansum", .by_rows = 1, .over = Over::Dims, .dims = 1},
    {.name = "amax", .by_rows = 1, .over = Over::Dims, .dims = 1},
    {.name = "amin", .by_rows = 1, .over = Over::Dims, .dims = 1},
    {.name = "var", .by_rows = 1, .over = Over::Dims, .dims = 1},
    {.name = "std", .by_rows = 1, .over = Over::Dims, .dims = 1},
    {.name = "logsumexp", .by_rows = 1, .over = Over::Dims, .dims = 1},
    {.name = "max_dim", .by_rows = 1, .over = Over::Dim, .dims = 1},
    {.name = "min_dim", .by_rows = 1, .over = Over::Dim, .dims = 1},
    {.name = "native_layer_norm", .by_rows = 1, .over = Over::Shape, .dims = 1},
    {.name = "layer_norm_grad_x", .by_rows = 15, .over = Over::Count, .dims = 5},
    {.name = "index_select", .by_rows = 4, .over = Over::None, .dims = 1},
    {.name = "embedding", .by_rows = 2, .over = Over::None, .dims = -1},
};

const Value* value_at(const Graph& graph, const Node& node, int argument) {
  if (argument >= static_cast<int>(node.arguments.size())) return nullptr;
  const auto* one = std::get_if<ValueRef>(&node.arguments[argument]);
  return one && one->id != kNone ? &graph.values[one->id] : nullptr;
}
template <class T>
const T* boxed_at(const Node& node, int argument) {
  const auto* value = std::get_if<BoxedValue>(&node.arguments[argument]);
  return value ? std::get_if<T>(value) : nullptr;
}

// How many of the last dimensions an op goes over; -1 for others.
int last_dims(const Node& node, const RowOp& op, int rank) {
  switch (op.over) {
    case Over::Dim: {
      const auto* dim = boxed_at<int64_t>(node, op.dims);
      return dim && *dim == rank - 1 ? 1 : -1;
    }
    case Over::Dims: {
      const auto* dims = boxed_at<Dims>(node, op.dims);
      if (!dims) return -1;
      for (int d = rank - dims->size(); d < rank; ++d)
        if (!dims->contains(d)) return -1;
      return dims->size();
    }
    case Over::Shape: {
      if (const auto* sizes = boxed_at<std::vector<int64_t>>(node, op.dims))
        return static_cast<int>(sizes->size());
      const auto* dims = boxed_at<Dims>(node, op.dims);
      return dims ? dims->size() : -1;
    }
    case Over::Count: {
      const auto* count = boxed_at<int64_t>(node, op.dims);
      return count ? static_cast<int>(*count) : -1;
    }
    default: return 0;
  }
}

// The products of the first dimensions, at most so many, the largest first.
std::vector<int64_t> leading_products(const Dims& sizes, int most) {
  std::vector<int64_t> out;
  int64_t n = 1;
  for (int d = 0; d < most; ++d) {
    n *= sizes[d];
    if (n > 1 && (out.empty() || out.back() != n)) out.push_back(n);
  }
  std::reverse(out.begin(), out.end());
  return out;
}

bool is_whole(const Value& v) { return is_contiguous(v.sizes, v.strides); }

std::optional<RowGroup> fold_group(const Graph& graph, const Node& node) {
  const Value* x = value_at(graph, node, 0);
  const Value& y = graph.values[std::get<ValueRef>(node.results[0]).id];
  const auto* dims = boxed_at<Dims>(node, 1);
  if (!x || !dims || dims->size() != x->sizes.size() || numel_of(y.sizes) != 1) return {};
  RowGroup out;
  out.kind = Kind::Fold;
  out.elements = numel_of(x->sizes);
  out.any_rows = true;
  if (!is_whole(*x) || out.elements <= cpu::kRunLength) return {};
  if (!cpu::run_fold_of(node.op->name, x->dtype, y.dtype, out.elements)) return {};
  return out;
}

std::optional<RowGroup> mask_group(const Graph& graph, const Node& node) {
  const Value& y = graph.values[std::get<ValueRef>(node.results[0]).id];
  if (!is_whole(y)) return {};
  RowGroup out;
  out.kind = Kind::Mask;
  out.elements = numel_of(y.sizes);
  out.any_rows = true;
  return out;
}

std::optional<RowGroup> op_group(const Graph& graph, const Node& node) {
  const auto* op = std::ranges::find(kRowOps, node.op->name, &RowOp::name);
  if (op == std::end(kRowOps)) return {};
  if (node.op->kernel == nullptr && node.op->out == nullptr) return {};
  RowGroup out;
  out.kind = node.op->kernel ? Kind::Kernel : Kind::Out;
  out.by_rows = op->by_rows;
  out.dims = op->over == Over::Dim || op->over == Over::Dims ? op->dims : -1;
  const Value* first = nullptr;
  for (int i = 0; i < 32; ++i) {
    if ((op->by_rows >> i & 1u) == 0) continue;
    const Value* v = value_at(graph, node, i);
    if (!v || !is_whole(*v)) return {};
    out.elements = std::max(out.elements, numel_of(v->sizes));
    if (!first) first = v;
  }
  bool whole = true;
  each_result(node, [&](ValueId id) {
    whole = whole && is_whole(graph.values[id]);
    out.elements = std::max(out.elements, numel_of(graph.values[id].sizes));
  });
  const int rank = first->sizes.size(), over = last_dims(node, *op, rank);
  // Of an index only what is selected along the first dimension lies in rows.
  const auto* along = op->name == "index_select" ? boxed_at<int64_t>(node, op->dims) : nullptr;
  if (!whole || over < 0 || over > rank || (along && *along != 0)) return {};
  out.rows = leading_products(first->sizes, rank - over);
  out.checks = node.op->checks || op->over == Over::None;
  if (out.rows.empty()) return {};
  return out;
}

RowAccess whole_access(const Graph& graph, ValueId id, bool is_write) {
  const Elements reach = reach_of(graph, id);
  return {reach.buffer, is_write, 0, reach.low, reach.high};
}

std::optional<RowAccess> row_access(const Graph& graph, ValueId id, int64_t rows, bool is_write) {
  const Value& v = graph.values[id];
  const int64_t bytes = numel_of(v.sizes) / rows * bytes_of(v.dtype);
  if (numel_of(v.sizes) % rows != 0 || bytes == 0) return {};
  const int64_t low = v.offset * bytes_of(v.dtype);
  return RowAccess{v.buffer, is_write, bytes, low, low + bytes};
}

std::optional<RowPlan> loop_plan(const Group& group, int64_t rows) {
  const std::optional<SplitLoop> split = split_loop(*group.loop, rows);
  if (!split) return {};
  RowPlan out;
  const auto loads = group.loop->loads.size();
  for (size_t i = 0; i < split->operands.size(); ++i) {
    const Loop::Memory& m = split->operands[i];
    RowAccess access{group.slots[m.slot], i >= loads, 0, m.offset, m.offset + bytes_of(m.dtype)};
    for (int d = 0; d < split->inner; ++d) access.high += (split->sizes[d] - 1) * m.strides[d];
    // Rows that lie equally far from each other.
    const int64_t* const strides = m.strides + split->inner;
    const int64_t* const sizes = split->sizes + split->inner;
    bool even = strides[0] > 0;
    for (int d = 1; d < split->outer; ++d)
      even = even && strides[d] == strides[d - 1] * sizes[d - 1];
    if (even)
      access.stride = strides[0];
    else
      for (int d = 0; d < split->outer; ++d) access.high += (sizes[d] - 1) * strides[d];
    out.accesses.push_back(access);
  }
  if (split->outer > 1) out.divides = split->sizes[split->inner];
  return out;
}

}  // namespace

int leading_dims(const Dims& sizes, int64_t rows) {
  int64_t n = 1;
  for (int d = 0; d < sizes.size(); ++d)
    if ((n *= sizes[d]) == rows) return d + 1;
  return -1;
}

std::optional<SplitLoop> split_loop(const Loop& loop, int64_t rows) {
  if (loop.numel % rows != 0) return {};
  SplitLoop out;
  out.operands = loop.loads;
  for (const Loop::Store& store : loop.stores) out.operands.push_back(store.to);
  std::vector<Loop::Memory> from = out.operands;
  int64_t left = loop.numel / rows;
  int at = 0;
  out.inner = -1;
  const auto add = [&](int d, int64_t size, int64_t done) {
    out.sizes[at] = size;
    for (size_t i = 0; i < from.size(); ++i)
      out.operands[i].strides[at] = from[i].strides[d] * done;
    ++at;
  };
  for (int d = 0; d < loop.ndim; ++d) {
    for (const Loop::Memory& m : from)
      if (m.strides[d] < 0) return {};
    const int64_t inside = std::min(left, loop.sizes[d]);
    if (loop.sizes[d] % inside != 0 || left % inside != 0 || at + 2 > kMaxDims) return {};
    if (inside > 1) add(d, inside, 1);
    left /= inside;
    if (left == 1 && out.inner < 0) out.inner = at;
    if (loop.sizes[d] > inside) {
      if (left != 1) return {};
      add(d, loop.sizes[d] / inside, inside);
    }
  }
  out.outer = at - out.inner;
  // Outer dimensions that all operands walk as one.
  const int inner = out.inner;
  out.outer = join_dims<Innermost::First>(out.outer, out.sizes + inner, [&](auto&& f) {
    for (Loop::Memory& m : out.operands) f(m.strides + inner);
  });
  if (out.outer == 0) return {};
  return out;
}

std::optional<RowGroup> row_group(const Graph& graph, const Group& group) {
  const Node& node = graph.nodes[group.nodes.front()];
  if (group.loop) {
    if (!group.loop->device.is_cpu()) return {};
    RowGroup out;
    out.elements = group.loop->numel;
    out.any_rows = true;
    int64_t inner = 1;
    for (int d = 0; d < group.loop->ndim; ++d) {
      out.rows.push_back(group.loop->numel / inner);
      inner *= group.loop->sizes[d];
    }
    if (out.elements == 0) return {};
    return out;
  }
  const bool plain = node.form == OpInfo::Form::Plain && node.numbers == kNone && !is_view(node);
  if (group.nodes.size() != 1 || !plain || node.results.empty()) return {};
  bool on_cpu = true, simple = true;
  for (const Result& each : node.results) {
    const auto* one = std::get_if<ValueRef>(&each);
    simple = simple && one && one->id != kNone;
    if (!simple) return {};
    on_cpu = on_cpu && graph.buffers[graph.values[one->id].buffer].device.is_cpu();
  }
  if (!on_cpu) return {};
  const std::string_view name = node.op->name;
  if (name == "dropout_mask") return mask_group(graph, node);
  if (name == "sum" || name == "mean" || name == "amax" || name == "amin")
    if (auto fold = fold_group(graph, node)) return fold;
  return op_group(graph, node);
}

std::optional<RowPlan> row_plan(const Graph& graph, const Group& group, const RowGroup& is,
                                int64_t rows) {
  if (rows < 2 || is.elements % rows != 0) return {};
  if (is.kind == Kind::Loop) return loop_plan(group, rows);
  if (!is.any_rows && std::ranges::find(is.rows, rows) == is.rows.end()) return {};
  const Node& node = graph.nodes[group.nodes.front()];
  RowPlan out;
  const int64_t row = is.elements / rows;
  bool fits = true;
  const auto add = [&](const std::optional<RowAccess>& access) {
    fits = fits && access;
    if (access) out.accesses.push_back(*access);
  };
  const bool fold = is.kind == Kind::Fold;
  for (int i = 0; i < static_cast<int>(node.arguments.size()) && is.kind != Kind::Mask; ++i) {
    const auto* one = std::get_if<ValueRef>(&node.arguments[i]);
    if (!one || one->id == kNone) continue;
    if (fold || (is.by_rows >> i & 1u) != 0) {
      fits = fits && (fold || leading_dims(graph.values[one->id].sizes, rows) > 0);
      add(row_access(graph, one->id, rows, false));
    } else {
      add(whole_access(graph, one->id, false));
    }
  }
  each_result(node, [&](ValueId id) {
    if (fold) return add(whole_access(graph, id, true));
    fits = fits && (is.kind == Kind::Mask || leading_dims(graph.values[id].sizes, rows) > 0);
    add(row_access(graph, id, rows, true));
  });
  if (fold) out.multiple = cpu::kRunLength / std::gcd(cpu::kRunLength, row);
  // Blocks of random numbers are of four.
  if (is.kind == Kind::Mask) out.multiple = 4 / std::gcd(int64_t{4}, row);
  if (!fits) return {};
  return out;
}

}  // namespace moonlet::program
