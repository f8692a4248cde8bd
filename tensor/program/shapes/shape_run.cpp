// tensor/program/shapes/shape_run.cpp: calls of ops with tensors that have no memory.
#include "tensor/program/shapes/shape_run.h"

#include <optional>

#include "tensor/core/dispatch.h"
#include "tensor/core/error.h"
#include "tensor/program/shapes/schema.h"
#include "tensor/program/shapes/shape_device.h"

namespace moonlet::program {

namespace {

struct Releaser {
  void operator()(Storage* storage) const { storage->release(); }
};

Tensor tensor_of(const std::vector<Tensor>& tensors, ValueId id) {
  if (id == kNone) return {};
  check(id >= 0 && id < static_cast<ValueId>(tensors.size()), "there is no value ", id);
  check(tensors[id].defined(), "value ", id, " is used before it is made");
  return tensors[id];
}

// What the op gets of an argument: a device is that without memory.
BoxedValue boxed(const Argument& argument, const std::vector<Tensor>& tensors) {
  if (const auto* one = std::get_if<ValueRef>(&argument)) {
    Tensor held = tensor_of(tensors, one->id);
    return held.defined() ? BoxedValue(std::move(held)) : BoxedValue();
  }
  if (const auto* list = std::get_if<ValueRefs>(&argument)) {
    std::vector<Tensor> held;
    held.reserve(list->size());
    for (const ValueRef& each : *list) held.push_back(tensor_of(tensors, each.id));
    return held;
  }
  BoxedValue value = std::get<BoxedValue>(argument);
  if (std::holds_alternative<Device>(value)) value = shape_device();
  if (auto* options = std::get_if<Options>(&value)) options->device = shape_device();
  const auto* generator = std::get_if<Generator*>(&value);
  check(generator == nullptr || *generator == nullptr, "a generator cannot be an argument");
  return value;
}

// The rank by which an op's dims are counted: that of its first tensor, or of its first list.
std::optional<int> rank_for(const Schema& schema, const char* op,
                            std::span<const BoxedValue> arguments) {
  for (const std::string_view wanted : {"Tensor", "Tensor[]"}) {
    for (size_t i = 0; i < schema.arguments.size(); ++i) {
      if (schema.arguments[i].type != wanted) continue;
      if (const auto* one = std::get_if<Tensor>(&arguments[i])) return one->dim();
      const auto* list = std::get_if<std::vector<Tensor>>(&arguments[i]);
      if (list != nullptr) {
        check_list(op, schema.arguments[i].name.data(), *list);
        return rank_of(*list, op);
      }
    }
  }
  return {};
}

// Throws unless the dims are as public ops hand them on: from 0 to the rank, each once.
void check_dims(const SchemaArgument& argument, const BoxedValue& value, int rank, const char* op) {
  if (argument.type.starts_with("NewDim")) ++rank;
  if (const auto* one = std::get_if<int64_t>(&value))
    check(*one >= 0 && wrap_dim(*one, rank, op) == *one, argument.name, " is ", *one,
          ", which is no dim of rank ", rank);
  if (const auto* several = std::get_if<Dims>(&value))
    check(wrap_dims(*several, rank, op) == *several, argument.name, " is ", *several,
          ", which are no dims of rank ", rank);
}

// Throws where an argument is nothing that an op counts on. Of indices any may be missing.
void check_given(const SchemaArgument& argument, const BoxedValue& value) {
  if (argument.type.find('?') != argument.type.npos || argument.type == "Indices") return;
  check(!std::holds_alternative<std::monostate>(value), argument.name, " is missing");
  if (const auto* list = std::get_if<std::vector<Tensor>>(&value))
    for (const Tensor& each : *list)
      check(each.defined(), "a tensor of ", argument.name, " is missing");
}

bool is_dim(std::string_view type) { return type.starts_with("Dim") || type.starts_with("NewDim"); }

// What the op of a node takes for granted of its arguments, since public ops check it.
void check_arguments(const Node& node, std::span<const BoxedValue> arguments) {
  const RawOp& op = *node.op;
  const Schema schema = read_schema(op.schema);
  const size_t outs = node.form == OpInfo::Form::Out ? static_cast<size_t>(schema.results) : 0;
  check(arguments.size() == schema.arguments.size() + outs, "it takes ",
        schema.arguments.size() + outs, " arguments, got ", arguments.size());
  for (const BoxedValue& out : arguments.first(outs))
    check(!std::holds_alternative<std::monostate>(out), "a tensor that it writes to is missing");
  const std::span<const BoxedValue> own = arguments.subspan(outs);
  const std::optional<int> rank = rank_for(schema, op.name, own);
  for (size_t i = 0; i < own.size(); ++i) check_given(schema.arguments[i], own[i]);
  for (size_t i = 0; i < own.size(); ++i) {
    if (!is_dim(schema.arguments[i].type)) continue;
    check(rank.has_value(), schema.arguments[i].name, " needs a tensor");
    check_dims(schema.arguments[i], own[i], *rank, op.name);
  }
  for (int i = 0; i < static_cast<int>(arguments.size()); ++i) {
    const auto* written = writes(node, i) ? std::get_if<Tensor>(&arguments[i]) : nullptr;
    if (written != nullptr) check_writable(op.name, *written);
  }
}

ExecutionState state_for(Generator& generator, DType default_dtype) {
  ExecutionState state = execution;
  state.modes = nullptr;
  state.grad_mode = false;
  state.default_dtype = default_dtype;
  state.default_device = shape_device();
  state.generator = &generator;
  state.vmap = 0;
  state.capture = nullptr;
  return state;
}

}  // namespace

std::string node_name(const Graph& graph, size_t node) {
  const Node& at = graph.nodes[node];
  std::string out = text("node ", node + 1, ", ", at.op->name);
  if (at.line >= 0 && at.line < static_cast<int32_t>(graph.lines.size()))
    out += text(" at ", graph.lines[at.line]);
  return out;
}

ShapeRun::ShapeRun(DType default_dtype)
    : state_(state_for(generator_, default_dtype)), before_(execution) {
  execution = state_;
}
ShapeRun::~ShapeRun() { execution = before_; }

Tensor ShapeRun::on_new_storage(const Value& value, int64_t bytes) {
  const std::unique_ptr<Storage, Releaser> storage(shape_storage(static_cast<size_t>(bytes)));
  return view_of(*storage, value.sizes, value.strides, value.offset, value.dtype, "value");
}

void ShapeRun::call(const Node& node, const std::vector<Tensor>& tensors, BoxedValues& results) {
  const RawOp::Call form = node.op->form(node.form);
  check(form != nullptr, "the op has no such form");
  BoxedValues arguments;
  arguments.reserve(node.arguments.size());
  for (const Argument& each : node.arguments) arguments.push_back(boxed(each, tensors));
  check_arguments(node, arguments);
  results.clear();
  form(arguments, results);
}

}  // namespace moonlet::program
