// tensor/program/graph.h: a graph: the primitive ops that a function called, in their order, on
// tensors of known geometry. A capture writes it (capture.h), passes change it, a plan is made of
// it (plan.h), a file holds it.
//
// The memory is explicit: a value is a tensor on a buffer, views are values on the buffer of what
// they view, and an op in place writes the buffer of its first argument. The order of nodes is
// right; two nodes may change places when neither writes a buffer that the other uses. An internal
// value that no node gives as its result is new memory, which the first node that uses it writes.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "tensor/core/raw_op.h"

namespace moonlet::program {

// Index into Graph::values and Graph::buffers; kNone: nothing, as for a result that an op left out.
using ValueId = int32_t;
using BufferId = int32_t;
inline constexpr int32_t kNone = -1;

struct Buffer {
  enum class Kind : uint8_t {
    Input,      // memory of a tensor that each run is given
    Parameter,  // memory of a tensor that the program holds
    Internal    // made by a node
  };
  Kind kind = Kind::Internal;
  Device device;
  int64_t bytes = 0;
};

// A tensor: elements of a buffer.
struct Value {
  BufferId buffer = kNone;
  DType dtype = DType::Float32;
  Dims sizes, strides;  // in elements
  int64_t offset = 0;   // in elements
};

// A tensor or tensors among the arguments or results of a node.
struct ValueRef {
  ValueId id = kNone;
  bool operator==(const ValueRef&) const = default;
};
using ValueRefs = std::vector<ValueRef>;
// Another argument is a boxed value without tensors.
using Argument = std::variant<BoxedValue, ValueRef, ValueRefs>;
using Result = std::variant<ValueRef, ValueRefs>;

struct Node {
  const RawOp* op = nullptr;
  OpInfo::Form form = OpInfo::Form::Plain;
  std::vector<Argument> arguments;  // in the order of the form's boxed call
  // Of the in-place form the first argument's value again, of the out form those of the outs.
  std::vector<Result> results;
  int32_t line = kNone;  // the script's: index into Graph::lines
  // Where not kNone, the arguments that are numbers are given anew before each run, by the source
  // of that index (Runner::set_numbers): such as what an optimiser computes of the number of the
  // step.
  int32_t numbers = kNone;
};

// A tensor that the function did not get as an argument: a weight, a constant.
struct Parameter {
  ValueId value = kNone;
  Tensor tensor;
  std::string name;  // "layers.1.weight"; "" where none is known
};

struct Graph {
  std::vector<Buffer> buffers;
  std::vector<Value> values;
  std::vector<Node> nodes;
  std::vector<ValueId> inputs;
  std::vector<Parameter> parameters;
  std::vector<ValueId> outputs;
  std::vector<std::string> lines;  // "train.lua:12"
};

// Calls f(ValueId) for each tensor among the arguments or results of a node, those of lists too.
template <class F>
void each_argument(const Node& node, F&& f) {
  for (const Argument& a : node.arguments) {
    if (const auto* one = std::get_if<ValueRef>(&a)) {
      if (one->id != kNone) f(one->id);
    } else if (const auto* list = std::get_if<ValueRefs>(&a)) {
      for (const ValueRef& each : *list)
        if (each.id != kNone) f(each.id);
    }
  }
}
template <class F>
void each_result(const Node& node, F&& f) {
  for (const Result& r : node.results) {
    if (const auto* one = std::get_if<ValueRef>(&r)) {
      if (one->id != kNone) f(one->id);
    } else {
      for (const ValueRef& each : std::get<ValueRefs>(r))
        if (each.id != kNone) f(each.id);
    }
  }
}

// Whether argument i of a node's form is written by it.
bool writes(const Node& node, int i);
// Calls f(ValueId) for each argument that the node writes. What it makes is not among them.
template <class F>
void each_written(const Node& node, F&& f) {
  for (int i = 0; i < static_cast<int>(node.arguments.size()); ++i) {
    if (!writes(node, i)) continue;
    if (const auto* one = std::get_if<ValueRef>(&node.arguments[i])) {
      if (one->id != kNone) f(one->id);
    } else if (const auto* list = std::get_if<ValueRefs>(&node.arguments[i])) {
      for (const ValueRef& each : *list)
        if (each.id != kNone) f(each.id);
    }
  }
}

// Whether an argument is a number.
bool is_number(const BoxedValue& value);
inline bool is_number(const Argument& argument) {
  const auto* value = std::get_if<BoxedValue>(&argument);
  return value != nullptr && is_number(*value);
}

// Whether a node only makes views: nothing runs for it.
inline bool is_view(const Node& node) { return node.op->kind == OpKind::View; }

// A line per node, for people and for tests:
//   %3 = add(%1, %2, 1) : float32 (2, 3)
std::string to_string(const Graph& graph);
// The line of one node, without its end; the dtype and sizes of a value, "float32 (2, 3)".
std::string to_string(const Graph& graph, const Node& node);
std::string type_text(const Graph& graph, ValueId id);

}  // namespace moonlet::program
