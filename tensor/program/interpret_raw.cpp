// tensor/program/interpret_raw.cpp: boxes what a node takes, calls its op and keeps what it gives.
#include "tensor/program/interpret_raw.h"

#include "tensor/core/error.h"

namespace moonlet::program {

namespace {

std::vector<Tensor> own_parameters(const Graph& graph) {
  std::vector<Tensor> out;
  for (const Parameter& each : graph.parameters) out.push_back(each.tensor);
  return out;
}

void check_geometry(const Value& value, const Tensor& t, const char* what, size_t i) {
  check(t.defined() && t.dtype() == value.dtype && t.sizes() == value.sizes &&
            t.strides() == value.strides,
        "program: ", what, " ", i + 1, ": expected ", value.dtype, " of shape ", value.sizes,
        " and strides ", value.strides, ", got ",
        t.defined() ? text(t.dtype(), " of shape ", t.sizes(), " and strides ", t.strides())
                    : std::string("nothing"));
}

}  // namespace

Memory::Memory(const Graph& graph)
    : graph_(graph), tensors_(graph.values.size()), bases_(graph.buffers.size()) {
  give_parameters(own_parameters(graph));
}

Memory::Memory(const Graph& graph, std::span<const Tensor> inputs)
    : Memory(graph, inputs, own_parameters(graph)) {}

Memory::Memory(const Graph& graph, std::span<const Tensor> inputs,
               std::span<const Tensor> parameters)
    : graph_(graph), tensors_(graph.values.size()), bases_(graph.buffers.size()) {
  check(inputs.size() == graph.inputs.size(), "program: expected ", graph.inputs.size(),
        " inputs, got ", inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    check_geometry(graph.values[graph.inputs[i]], inputs[i], "input", i);
    give(graph.inputs[i], inputs[i]);
  }
  give_parameters(parameters);
}

void Memory::give_parameters(std::span<const Tensor> parameters) {
  check(parameters.size() == graph_.parameters.size(), "program: expected ",
        graph_.parameters.size(), " parameters, got ", parameters.size());
  for (size_t i = 0; i < parameters.size(); ++i) {
    check_geometry(graph_.values[graph_.parameters[i].value], parameters[i], "parameter", i);
    // A gradient may be an input that the function knew as a parameter.
    if (!tensors_[graph_.parameters[i].value].defined())
      give(graph_.parameters[i].value, parameters[i]);
  }
}

void Memory::give(ValueId id, const Tensor& t) {
  tensors_[id] = t;
  const Value& value = graph_.values[id];
  Base& base = bases_[value.buffer];
  if (base.any.defined()) return;
  base = {t, (t.offset() - value.offset) * static_cast<int64_t>(size_of(value.dtype))};
}

const Tensor& Memory::tensor(ValueId id) {
  Tensor& t = tensors_[id];
  if (t.defined()) return t;
  const Value& value = graph_.values[id];
  Base& base = bases_[value.buffer];
  if (!base.any.defined()) {
    const Buffer& buffer = graph_.buffers[value.buffer];
    base.any = empty_plain({buffer.bytes}, {DType::UInt8, buffer.device});
  }
  t = view_of(base.any.storage(), value.sizes, value.strides,
              value.offset + base.moved / static_cast<int64_t>(size_of(value.dtype)), value.dtype);
  return t;
}

BoxedValue Memory::boxed(const Argument& argument) {
  if (const auto* one = std::get_if<ValueRef>(&argument))
    return one->id == kNone ? BoxedValue() : BoxedValue(tensor(one->id));
  if (const auto* list = std::get_if<ValueRefs>(&argument)) {
    std::vector<Tensor> out;
    for (const ValueRef& each : *list) out.push_back(each.id == kNone ? Tensor() : tensor(each.id));
    return out;
  }
  return std::get<BoxedValue>(argument);
}

void Memory::take(const Result& result, const BoxedValue& given, const Node& node) {
  const auto one = [&](ValueId id, const Tensor& t) {
    if (id == kNone) return;
    const Value& value = graph_.values[id];
    check(t.defined() && t.sizes() == value.sizes && t.dtype() == value.dtype &&
              t.strides() == value.strides,
          "program: ", node.op->name, " gave another geometry than when it was captured");
    give(id, t);
    const auto size = static_cast<int64_t>(size_of(value.dtype));
    check((t.offset() - value.offset) * size == bases_[value.buffer].moved &&
              &t.storage() == &bases_[value.buffer].any.storage(),
          "program: ", node.op->name, " gave other memory than when it was captured");
  };
  if (const auto* ref = std::get_if<ValueRef>(&result)) {
    const auto* t = std::get_if<Tensor>(&given);
    one(ref->id, t ? *t : Tensor());
    return;
  }
  const auto& refs = std::get<ValueRefs>(result);
  const auto& list = std::get<std::vector<Tensor>>(given);
  check(refs.size() == list.size(), "program: ", node.op->name, " gave ", list.size(),
        " tensors, when it was captured ", refs.size());
  for (size_t i = 0; i < refs.size(); ++i) one(refs[i].id, list[i]);
}

void Memory::run(const Node& node) {
  BoxedValues arguments, results;
  arguments.reserve(node.arguments.size());
  for (const Argument& each : node.arguments) arguments.push_back(boxed(each));
  node.op->form(node.form)(arguments, results);
  // The other forms give arguments again.
  if (node.form != OpInfo::Form::Plain) return;
  for (size_t i = 0; i < node.results.size(); ++i) take(node.results[i], results[i], node);
}

std::vector<Tensor> interpret_raw(const Graph& graph, std::span<const Tensor> inputs) {
  return interpret_raw(graph, inputs, own_parameters(graph));
}

std::vector<Tensor> interpret_raw(const Graph& graph, std::span<const Tensor> inputs,
                                  std::span<const Tensor> parameters) {
  Memory memory(graph, inputs, parameters);
  for (const Node& node : graph.nodes) memory.run(node);
  std::vector<Tensor> out;
  for (const ValueId id : graph.outputs) out.push_back(memory.tensor(id));
  return out;
}

}  // namespace moonlet::program
