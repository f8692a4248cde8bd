// autograd/program/interpret.cpp: calls the public ops that a graph's nodes stand for.
#include "autograd/program/interpret.h"

#include "autograd/anomaly.h"
#include "autograd/tape.h"
#include "tensor/core/error.h"
#include "tensor/program/made_memory.h"

namespace moonlet::program {

namespace {

const OpInfo& public_op(const Node& node) {
  std::string name = node.op->name;
  if (node.form == OpInfo::Form::InPlace) name += "_";
  if (node.form == OpInfo::Form::Out) name += "_out";
  const OpInfo* const op = find_op(name);
  check(op != nullptr, "program: there is no op ", name);
  return *op;
}

class Interpretation {
 public:
  explicit Interpretation(const Graph& graph) : graph_(graph), tensors_(graph.values.size()) {}

  void set(ValueId id, const Tensor& t) {
    if (!tensors_[id].defined()) tensors_[id] = t;
  }
  void run(const Node& node, const TapeState& state) {
    const GradModeGuard mode(state.grad_mode);
    state_ = &state;
    next_ = 0;
    BoxedValues arguments;
    for (const Argument& each : node.arguments) arguments.push_back(boxed(each));
    static const std::string unknown;
    const RecordedAt position(node.line == kNone ? unknown : graph_.lines[node.line]);
    const BoxedValues results = call_op(public_op(node), arguments);
    if (node.form != OpInfo::Form::Plain) return;  // in the tensors that are there
    for (size_t i = 0; i < node.results.size(); ++i) take(node.results[i], results[i]);
  }
  std::vector<Tensor> tensors() && { return std::move(tensors_); }

 private:
  // As the op met it: what was detached is so again.
  Tensor argument(ValueId id) {
    if (id == kNone) return {};
    const size_t at = next_++;
    const bool required = at >= state_->required.size() || state_->required[at];
    const Tensor& t = tensors_[id];
    if (!t.defined()) set(id, new_memory(id));
    return required || !t.requires_grad() ? t : detach(t);
  }
  Tensor new_memory(ValueId id) const {
    const Value& v = graph_.values[id];
    return made_memory(
        empty_strided(v.sizes, v.strides, {v.dtype, graph_.buffers[v.buffer].device}, "backward"));
  }
  BoxedValue boxed(const Argument& a) {
    if (const auto* one = std::get_if<ValueRef>(&a))
      return one->id == kNone ? BoxedValue() : BoxedValue(argument(one->id));
    if (const auto* list = std::get_if<ValueRefs>(&a)) {
      std::vector<Tensor> all;
      for (const ValueRef& each : *list) all.push_back(argument(each.id));
      return all;
    }
    return std::get<BoxedValue>(a);
  }
  void take(const Result& result, const BoxedValue& given) {
    if (const auto* one = std::get_if<ValueRef>(&result)) {
      if (one->id != kNone) set(one->id, std::get<Tensor>(given));
      return;
    }
    const auto& refs = std::get<ValueRefs>(result);
    const auto& made = std::get<std::vector<Tensor>>(given);
    for (size_t i = 0; i < refs.size(); ++i)
      if (refs[i].id != kNone) set(refs[i].id, made[i]);
  }

  const Graph& graph_;
  std::vector<Tensor> tensors_;  // by value
  const TapeState* state_ = nullptr;
  size_t next_ = 0;  // the tensor argument to come
};

}  // namespace

std::vector<Tensor> interpret(const Graph& graph, std::span<const TapeState> states,
                              std::span<const Tensor> inputs, std::span<const Tensor> parameters) {
  Interpretation run(graph);
  for (size_t i = 0; i < inputs.size(); ++i) run.set(graph.inputs[i], inputs[i]);
  for (size_t i = 0; i < parameters.size(); ++i) run.set(graph.parameters[i].value, parameters[i]);
  for (size_t i = 0; i < graph.nodes.size(); ++i) run.run(graph.nodes[i], states[i]);
  return std::move(run).tensors();
}

}  // namespace moonlet::program
