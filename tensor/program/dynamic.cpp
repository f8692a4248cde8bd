// tensor/program/dynamic.cpp: the graph of other sizes.
#include "tensor/program/dynamic.h"

#include <unordered_map>

#include "tensor/core/error.h"
#include "tensor/program/dynamic_argument.h"
#include "tensor/program/shape_run.h"

namespace moonlet::program {

namespace {

// Fills the values and buffers of a graph by what its nodes give.
class Reshape {
 public:
  Reshape(Graph& graph, DType default_dtype)
      : graph_(graph), run_(default_dtype), tensors_(graph.values.size()) {}

  // Of an input or new memory: other sizes, dense in the order of its strides.
  void set_sizes(ValueId id, const Dims& sizes) {
    Value& value = graph_.values[id];
    Buffer& buffer = graph_.buffers[value.buffer];
    const int64_t numel = numel_of(sizes, "program");
    value.strides = is_contiguous(value.sizes, value.strides) ? contiguous_strides(sizes)
                                                              : dense_strides(sizes, value.strides);
    value.sizes = sizes;
    buffer.bytes = (value.offset + numel) * static_cast<int64_t>(size_of(value.dtype));
  }

  void run() {
    for (const ValueId id : graph_.inputs) start(id);
    for (const Parameter& p : graph_.parameters) start(p.value);
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      try {
        run_node(graph_.nodes[i]);
      } catch (const OutOfMemory&) {
        throw;
      } catch (const Error& e) {
        fail(node_name(graph_, i), ": ", e.what());
      }
    }
  }

 private:
  void start(ValueId id) {
    const Value& value = graph_.values[id];
    tensors_[id] = ShapeRun::on_new_storage(value, graph_.buffers[value.buffer].bytes);
    buffers_[&tensors_[id].storage()] = value.buffer;
  }

  void run_node(const Node& node) {
    each_written(node, [&](ValueId id) {
      if (!tensors_[id].defined()) start(id);  // new memory
    });
    BoxedValues results;
    run_.call(node, tensors_, results);
    if (node.form != OpInfo::Form::Plain) return;
    for (size_t i = 0; i < node.results.size(); ++i) {
      if (const auto* one = std::get_if<ValueRef>(&node.results[i])) {
        const auto* made = std::get_if<Tensor>(&results[i]);
        take(one->id, made != nullptr ? *made : Tensor());
        continue;
      }
      const auto& refs = std::get<ValueRefs>(node.results[i]);
      const auto* made = std::get_if<std::vector<Tensor>>(&results[i]);
      check(made != nullptr && made->size() == refs.size(),
            "it gives another number of results at these sizes");
      for (size_t k = 0; k < refs.size(); ++k) take(refs[k].id, (*made)[k]);
    }
  }

  void take(ValueId id, const Tensor& made) {
    if (id == kNone) return;
    check(made.defined(), "it does not give value ", id, " at these sizes");
    Value& value = graph_.values[id];
    const auto [known, is_new] = buffers_.emplace(&made.storage(), value.buffer);
    check(known->second == value.buffer, "value ", id, " is in other memory at these sizes");
    if (is_new) graph_.buffers[value.buffer].bytes = static_cast<int64_t>(made.storage().bytes());
    value.dtype = made.dtype();
    value.sizes = made.sizes();
    value.strides = made.strides();
    value.offset = made.offset();
    tensors_[id] = made;
  }

  Graph& graph_;
  ShapeRun run_;
  std::vector<Tensor> tensors_;  // by value
  std::unordered_map<const Storage*, BufferId> buffers_;
};

std::string name_of(const ProgramData& data, size_t input) {
  const std::string& name = data.input_names[input];
  return name.empty() ? text("input ", input + 1) : text("input '", name, "'");
}

// A size of new memory.
void check_made(const ProgramData& data, const DynamicArgument& size) {
  const Graph& graph = data.graph;
  check(size.argument >= 0 && size.argument < static_cast<int32_t>(graph.values.size()),
        "a size is of value ", size.argument, ", which is not there");
  const Value& value = graph.values[size.argument];
  check(graph.buffers[value.buffer].kind == Buffer::Kind::Internal && size.element >= 0 &&
            size.element < value.sizes.size() &&
            value.sizes[size.element] == value_of(size, data.dynamic.example),
        "value ", size.argument, " does not follow the sizes");
}

}  // namespace

void check_dynamic(const ProgramData& data) {
  const Dynamic& dynamic = data.dynamic;
  const auto symbols = static_cast<int32_t>(dynamic.example.size());
  for (const DynamicSize& each : dynamic.sizes) {
    check(each.input >= 0 && each.input < static_cast<int32_t>(data.graph.inputs.size()),
          "a size is of input ", each.input + 1, ", which is not there");
    const Value& value = data.graph.values[data.graph.inputs[each.input]];
    check(each.dim >= 0 && each.dim < value.sizes.size(), "a size is of dim ", each.dim + 1,
          ", which ", name_of(data, each.input), " does not have");
    check(each.symbol >= 0 && each.symbol < symbols, "there is no size ", each.symbol);
    check(value.sizes[each.dim] == dynamic.example[each.symbol], "a size is ",
          dynamic.example[each.symbol], ", in the graph it is ", value.sizes[each.dim]);
  }
  for (const DynamicArgument& each : dynamic.arguments) {
    if (each.node == kNone) {
      check_made(data, each);
      continue;
    }
    const bool known = each.node >= 0 && each.node < static_cast<int32_t>(data.graph.nodes.size());
    check(known, "a size is of node ", each.node, ", which is not there");
    const Node& node = data.graph.nodes[each.node];
    check(each.argument >= 0 && each.argument < static_cast<int32_t>(node.arguments.size()),
          node_name(data.graph, each.node), ": it has no argument ", each.argument);
    check(
        integer_in(node.arguments[each.argument], each.element) == value_of(each, dynamic.example),
        node_name(data.graph, each.node), ": its argument does not follow the sizes");
  }
}

std::vector<int64_t> sizes_of(const ProgramData& data, std::span<const Dims> inputs) {
  const Graph& graph = data.graph;
  std::vector<int64_t> out(data.dynamic.example.size(), -1);
  std::vector<Dims> expected;
  for (const ValueId id : graph.inputs) expected.push_back(graph.values[id].sizes);
  for (const DynamicSize& each : data.dynamic.sizes) {
    const Dims& given = inputs[each.input];
    check(given.size() == expected[each.input].size(), "program: expected ",
          name_of(data, each.input), " of shape ", expected[each.input], " with size ",
          each.dim + 1, " free, got ", given);
    int64_t& size = out[each.symbol];
    check(size < 0 || size == given[each.dim], "program: size ", each.dim + 1, " of ",
          name_of(data, each.input), " is ", given[each.dim], ", that of another input ", size);
    size = given[each.dim];
    expected[each.input][each.dim] = size;
  }
  for (size_t i = 0; i < inputs.size(); ++i)
    check(inputs[i] == expected[i], "program: expected ", name_of(data, i), " of shape ",
          expected[i], ", got ", inputs[i]);
  return out;
}

Graph with_sizes(const ProgramData& data, const std::vector<int64_t>& sizes) {
  Graph graph = data.graph;
  Reshape reshape(graph, data.default_dtype);
  std::vector<Dims> inputs;
  for (const ValueId id : graph.inputs) inputs.push_back(graph.values[id].sizes);
  for (const DynamicSize& each : data.dynamic.sizes)
    inputs[each.input][each.dim] = sizes[each.symbol];
  for (size_t i = 0; i < inputs.size(); ++i)
    if (!(inputs[i] == graph.values[graph.inputs[i]].sizes))
      reshape.set_sizes(graph.inputs[i], inputs[i]);
  for (const DynamicArgument& each : data.dynamic.arguments) {
    if (each.node != kNone) continue;
    Dims made = graph.values[each.argument].sizes;
    made[each.element] = value_of(each, sizes);
    reshape.set_sizes(each.argument, made);
  }
  for (const DynamicArgument& each : data.dynamic.arguments)
    if (each.node != kNone)
      set_integer(graph.nodes[each.node].arguments[each.argument], each.element,
                  value_of(each, sizes));
  reshape.run();
  return graph;
}

}  // namespace moonlet::program
