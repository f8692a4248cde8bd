// tensor/program/passes/functional.cpp: changes in place of memory that the graph made become new
// values. Nobody can tell, as what the memory held before is read by nobody behind the change.
#include <algorithm>

#include "tensor/core/layout.h"
#include "tensor/pointwise/run.h"
#include "tensor/program/passes/effects.h"
#include "tensor/program/passes/passes.h"
#include "tensor/program/passes/rewrite.h"

namespace moonlet::program {

namespace {

// Whether the plain form of a pointwise op computes what the one in place does, and in a result
// that lies as the tensor that was written.
bool is_plain_alike(const Graph& graph, const Node& node) {
  const PointwiseOp& op = *node.op->pointwise;
  const Value& self = graph.values[tensor_argument(node, 0)];
  if (op.result != PointwiseOp::Same || node.op->plain == nullptr) return false;
  Dims strides[kMaxPointwiseInputs];
  int count = 0;
  bool alike = true, row_major = is_contiguous(self.sizes, self.strides);
  for (int i = 0; i < static_cast<int>(node.arguments.size()); ++i) {
    const ValueId id = tensor_argument(node, i);
    if (id == kNone) continue;
    const Value& x = graph.values[id];
    if (x.dtype != ((op.mask_args >> i & 1u) != 0 ? DType::Bool : self.dtype)) return false;
    alike = alike && x.sizes == self.sizes && x.strides == self.strides;
    row_major = row_major && x.sizes == self.sizes && is_contiguous(x.sizes, x.strides);
    strides[count++] = broadcast_strides(x.sizes, x.strides, self.sizes);
  }
  if (row_major || op.row_major) return self.strides == contiguous_strides(self.sizes);
  return alike || followed_strides(self.sizes, strides, count) == self.strides;
}

// The node that makes in new memory what `node` leaves in its first argument; without an op where
// there is none.
Node plain_form(const Graph& graph, const Node& node) {
  Node out = node;
  out.op = nullptr;
  if (node.op->pointwise != nullptr) {
    if (!is_plain_alike(graph, node)) return out;
    out.op = node.op;
  } else if (node.op->name == std::string_view("copy")) {
    const ValueId source = tensor_argument(node, 1);
    if (source == kNone) return out;
    const Value &x = graph.values[source], &y = graph.values[tensor_argument(node, 0)];
    const Device from = graph.buffers[x.buffer].device, to = graph.buffers[y.buffer].device;
    if (from != to || !(x.sizes == y.sizes) || !(dense_strides(x.sizes, x.strides) == y.strides))
      return out;
    if (x.dtype == y.dtype) {
      out.op = find_raw_op("clone");
      out.arguments = {ValueRef{source}, BoxedValue()};
    } else {
      out.op = find_raw_op("convert");
      out.arguments = {ValueRef{source}, BoxedValue(y.dtype), BoxedValue(), BoxedValue()};
    }
  }
  out.form = OpInfo::Form::Plain;
  return out;
}

class Functional {
 public:
  explicit Functional(Graph& graph)
      : graph_(graph),
        effects_(graph),
        standing_(graph),
        home_(graph.values.size()),
        moved_to_(graph.buffers.size(), kNone),
        by_buffer_(values_by_buffer(graph)) {
    for (size_t i = 0; i < home_.size(); ++i) home_[i] = graph.values[i].buffer;
  }

  bool run() {
    std::vector<Node> before = std::move(graph_.nodes);
    graph_.nodes.clear();
    bool any = false;
    for (int at = 0; at < static_cast<int>(before.size()); ++at) {
      const bool is_change = is_candidate(before[at], at);
      const ValueId written = tensor_argument(before[at], 0);  // of before
      standing_.apply(before[at]);
      settle(before[at], at);
      Node plain;
      if (is_change && can_move(written, at)) plain = plain_form(graph_, before[at]);
      if (plain.op == nullptr) {
        graph_.nodes.push_back(std::move(before[at]));
        continue;
      }
      any = true;
      const ValueId result = add_value_like(graph_, tensor_argument(before[at], 0));
      plain.results = {ValueRef{result}};
      graph_.nodes.push_back(std::move(plain));
      move_on(written, result, at);
    }
    standing_.apply_to_outputs(graph_);
    return any;
  }

 private:
  // A change of the whole of memory that the graph made: all that is read of it later is this.
  bool is_candidate(const Node& node, int at) const {
    if (node.form != OpInfo::Form::InPlace || node.op->random) return false;
    const ValueId x = tensor_argument(node, 0);
    const BufferId buffer = home_[x];
    if (graph_.buffers[buffer].kind != Buffer::Kind::Internal || !fills_buffer(graph_, x))
      return false;
    const bool copies = node.op->name == std::string_view("copy");
    return copies || (node.op->pointwise != nullptr && effects_.maker(buffer) != kNone &&
                      effects_.maker(buffer) < at);
  }

  // Values that a node gives on memory that has moved are there.
  void settle(const Node& node, int at) {
    each_result(node, [&](ValueId id) {
      if (static_cast<size_t>(id) < home_.size() && effects_.giver(id) == at &&
          moved_to_[home_[id]] != kNone)
        graph_.values[id].buffer = moved_to_[home_[id]];
    });
  }

  bool is_used_later(ValueId id, int at) const {
    return effects_.is_output(id) ||
           (!effects_.users(id).empty() && effects_.users(id).back() > at);
  }

  // Whether views of what is written can be made again of the new value.
  bool can_move(ValueId written, int at) const {
    return std::ranges::all_of(by_buffer_[home_[written]], [&](ValueId id) {
      return graph_.values[id].dtype == graph_.values[written].dtype || effects_.giver(id) > at ||
             !is_used_later(id, at);
    });
  }

  // From here on `result` is the memory on which `written` lay.
  void move_on(ValueId written, ValueId result, int at) {
    const BufferId home = home_[written];
    moved_to_[home] = graph_.values[result].buffer;
    const Value whole = graph_.values[result];
    for (const ValueId id : by_buffer_[home]) {
      if (effects_.giver(id) > at || !is_used_later(id, at)) continue;
      Value view = graph_.values[id];
      if (same_geometry(view, whole)) {
        standing_.set(id, result);
        continue;
      }
      view.buffer = whole.buffer;
      graph_.values.push_back(view);
      const auto again = static_cast<ValueId>(graph_.values.size()) - 1;
      graph_.nodes.push_back(
          {find_raw_op("strided_view"),
           OpInfo::Form::Plain,
           {ValueRef{result}, BoxedValue(view.sizes), BoxedValue(view.strides),
            BoxedValue(view.offset), BoxedValue(whole.strides), BoxedValue(whole.offset)},
           {ValueRef{again}},
           graph_.nodes.back().line});
      standing_.set(id, again);
    }
  }

  Graph& graph_;
  const Effects effects_;  // of before
  Substitution standing_;
  std::vector<BufferId> home_;      // the buffer of each value of before
  std::vector<BufferId> moved_to_;  // where the memory of a buffer is now, or kNone
  std::vector<std::vector<ValueId>> by_buffer_;
};

}  // namespace

bool make_functional(Graph& graph) { return Functional(graph).run(); }

}  // namespace moonlet::program
