// tensor/program/passes/batch_norm.cpp: batch norm in evaluation is a scale and a shift for each
// channel; those go into the weight and bias of the convolution or linear layer before it.
#include <array>
#include <vector>

#include "tensor/program/interpret_raw.h"
#include "tensor/program/passes/effects.h"
#include "tensor/program/passes/passes.h"
#include "tensor/program/passes/rewrite.h"

namespace moonlet::program {

namespace {

Tensor run(const char* op, BoxedValues arguments) {
  BoxedValues results;
  find_raw_op(op)->plain(arguments, results);
  return std::get<Tensor>(results[0]);
}

class Folder {
 public:
  explicit Folder(Graph& graph) : graph_(graph), effects_(graph), memory_(graph) {}

  bool run() {
    mark_constants();
    bool any = false;
    std::vector<bool> dead(graph_.nodes.size());
    for (int at = 0; at < static_cast<int>(graph_.nodes.size()); ++at)
      if (fold(at)) dead[at] = any = true;
    if (any) remove_nodes(graph_, dead);
    return any;
  }

 private:
  // Parameters that are never written, and views of them.
  void mark_constants() {
    constant_.resize(graph_.values.size());
    for (const Parameter& each : graph_.parameters)
      constant_[each.value] = !effects_.is_ever_written(graph_.values[each.value].buffer);
    for (const Node& node : graph_.nodes) {
      const ValueId base = tensor_argument(node, 0), view = only_result(node);
      if (!is_view(node) || node.numbers != kNone || base == kNone || view == kNone) continue;
      if (!constant_[base]) continue;
      memory_.run(node);
      constant_[view] = true;
    }
  }

  bool is_constant(ValueId id) const { return id == kNone || constant_[id]; }

  // Whether the value is constant and has a number for each channel of `of`.
  bool is_per_channel(ValueId id, ValueId of, int channel) const {
    if (id == kNone || !constant_[id]) return false;
    const Dims &sizes = graph_.values[id].sizes, &whole = graph_.values[of].sizes;
    const int added = whole.size() - sizes.size();
    for (int d = 0; d < sizes.size(); ++d)
      if (sizes[d] != (d + added == channel ? whole[channel] : 1)) return false;
    return channel >= added && graph_.values[id].dtype == graph_.values[of].dtype;
  }

  // The scale and shift of node `at` for what a product before it gives.
  bool fold(int at) {
    const Node& node = graph_.nodes[at];
    if (node.op->name != std::string_view("addcmul") || node.form != OpInfo::Form::Plain ||
        node.numbers != kNone || only_result(node) == kNone)
      return false;
    const auto* value = std::get_if<BoxedValue>(&node.arguments[3]);
    if (value == nullptr || std::get<Scalar>(*value).to_double() != 1) return false;
    const ValueId first = tensor_argument(node, 1), second = tensor_argument(node, 2);
    return fold_into(at, first, second) || fold_into(at, second, first);
  }

  bool fold_into(int at, ValueId x, ValueId scale) {
    const ValueId shift = tensor_argument(graph_.nodes[at], 0);
    const int product = x == kNone ? kNone : effects_.giver(x);
    if (product == kNone || scale == kNone || shift == kNone) return false;
    Node& made = graph_.nodes[product];
    const bool linear = made.op->name == std::string_view("linear");
    if ((!linear && made.op->name != std::string_view("native_conv")) ||
        made.form != OpInfo::Form::Plain || only_result(made) != x)
      return false;
    const ValueId y = only_result(graph_.nodes[at]), weight = tensor_argument(made, 1),
                  bias = tensor_argument(made, 2);
    const int channel = linear ? graph_.values[x].sizes.size() - 1 : 1;
    const BufferId buffer = graph_.values[x].buffer;
    if (effects_.holds_output(buffer) || effects_.is_ever_written(buffer) ||
        effects_.users(x).size() != 1 || effects_.of(buffer).size() != 2 ||
        !same_geometry(graph_.values[x], graph_.values[y]) || !is_constant(weight) ||
        weight == kNone || !is_constant(bias) || !is_per_channel(scale, x, channel) ||
        !is_per_channel(shift, x, channel))
      return false;
    put(made, weight, bias, scale, shift);
    made.results = graph_.nodes[at].results;
    return true;
  }

  // The weight and bias times the scale, plus the shift. The numbers of a weight are in rows of the
  // results' channels.
  void put(Node& product, ValueId weight, ValueId bias, ValueId scale, ValueId shift) {
    const Tensor w = tensor(weight);
    Dims flat, rows;
    flat.push_back(w.size(0));
    for (int d = 0; d < w.dim(); ++d) rows.push_back(d == 0 ? w.size(0) : 1);
    const auto shaped = [&](ValueId id, const Dims& sizes) {
      return program::run("view",
                          {program::run("clone", {tensor(id), MemoryFormat::Contiguous}), sizes});
    };
    const Tensor shifts = shaped(shift, flat);
    product.arguments[1] = ValueRef{hold(program::run("mul", {w, shaped(scale, rows)}))};
    product.arguments[2] = ValueRef{
        hold(bias == kNone
                 ? shifts
                 : program::run(
                       "add", {program::run("mul", {tensor(bias), shaped(scale, flat)}), shifts}))};
  }

  // Of before, or one that was added here.
  Tensor tensor(ValueId id) {
    for (const Parameter& each : graph_.parameters)
      if (each.value == id) return each.tensor;
    return memory_.tensor(id);
  }

  ValueId hold(const Tensor& t) {
    const auto buffer = static_cast<BufferId>(graph_.buffers.size());
    graph_.buffers.push_back(
        {Buffer::Kind::Parameter, t.device(), static_cast<int64_t>(t.storage().bytes())});
    graph_.values.push_back({buffer, t.dtype(), t.sizes(), t.strides(), t.offset()});
    const auto id = static_cast<ValueId>(graph_.values.size()) - 1;
    constant_.push_back(true);
    graph_.parameters.push_back({id, t, ""});
    return id;
  }

  Graph& graph_;
  const Effects effects_;  // of before
  Memory memory_;
  std::vector<bool> constant_;  // by value
};

}  // namespace

bool fold_batch_norm(Graph& graph, const PassOptions& options) {
  return options.fold && options.parameters_constant && Folder(graph).run();
}

}  // namespace moonlet::program
