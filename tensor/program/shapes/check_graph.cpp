// tensor/program/shapes/check_graph.cpp: what a graph says of its nodes beside what its ops say.
#include "tensor/program/shapes/check_graph.h"

#include <unordered_set>

#include "tensor/core/error.h"
#include "tensor/program/shapes/schema.h"
#include "tensor/program/shapes/shape_run.h"
#include "tensor/runtime/backend.h"

namespace moonlet::program {

namespace {

class GraphCheck {
 public:
  GraphCheck(const Graph& graph, DType default_dtype)
      : graph_(graph),
        run_(default_dtype),
        tensors_(graph.values.size()),
        storages_(graph.buffers.size()),
        is_given_(graph.values.size()) {}

  void check_all() {
    check_tables();
    note_given();
    for (const ValueId id : graph_.inputs) define(id, Buffer::Kind::Input, "input");
    for (const Parameter& p : graph_.parameters) {
      define(p.value, Buffer::Kind::Parameter, "parameter");
      check_parameter(p);
    }
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      try {
        check_node(graph_.nodes[i]);
      } catch (const OutOfMemory&) {
        throw;
      } catch (const Error& e) {
        fail(node_name(graph_, i), ": ", e.what());
      }
    }
    for (const ValueId id : graph_.outputs)
      check(is_made(id), "output ", id, " is a value that no node makes");
  }

 private:
  void check_tables() {
    for (size_t i = 0; i < graph_.buffers.size(); ++i) {
      const Buffer& buffer = graph_.buffers[i];
      check(buffer.bytes >= 0, "buffer ", i, " has ", buffer.bytes, " bytes");
      require_device(buffer.device, "program");
    }
    for (size_t i = 0; i < graph_.values.size(); ++i) {
      const Value& value = graph_.values[i];
      check(value.buffer >= 0 && value.buffer < static_cast<BufferId>(storages_.size()), "value ",
            i, " is in buffer ", value.buffer, ", which is not there");
      check(value.sizes.size() == value.strides.size(), "value ", i, " has sizes ", value.sizes,
            " and strides ", value.strides);
    }
  }

  // The values that nodes give: others are no new memory.
  void note_given() {
    for (const Node& node : graph_.nodes) {
      if (node.form != OpInfo::Form::Plain) continue;
      each_result(node, [&](ValueId id) {
        if (id >= 0 && id < static_cast<ValueId>(is_given_.size())) is_given_[id] = true;
      });
    }
  }

  bool is_made(ValueId id) const {
    return id >= 0 && id < static_cast<ValueId>(tensors_.size()) && tensors_[id].defined();
  }

  // Of a tensor that is there before the first node: all of a buffer's, and no other is.
  void define(ValueId id, Buffer::Kind kind, const char* what) {
    check(id >= 0 && id < static_cast<ValueId>(tensors_.size()), "there is no value ", id,
          " to be ", what);
    const Value& value = graph_.values[id];
    const Buffer& buffer = graph_.buffers[value.buffer];
    check(buffer.kind == kind && storages_[value.buffer] == nullptr && !is_made(id), what, " ", id,
          " shares the memory of another value");
    tensors_[id] = ShapeRun::on_new_storage(value, buffer.bytes);
    check(tensors_[id].offset() == value.offset, what, " ", id, " lies outside its buffer");
    storages_[value.buffer] = &tensors_[id].storage();
    known_.insert(storages_[value.buffer]);
  }

  void check_parameter(const Parameter& p) const {
    const Value& value = graph_.values[p.value];
    const Tensor& t = p.tensor;
    check(t.defined() && t.dtype() == value.dtype && t.sizes() == value.sizes &&
              t.strides() == value.strides && t.offset() == value.offset &&
              static_cast<int64_t>(t.storage().bytes()) == graph_.buffers[value.buffer].bytes &&
              t.device() == graph_.buffers[value.buffer].device,
          "parameter '", p.name, "' is not the tensor that the graph says");
  }

  void check_node(const Node& node) {
    const int32_t lines = static_cast<int32_t>(graph_.lines.size());
    check(node.line >= kNone && node.line < lines, "there is no line ", node.line);
    check(node.numbers == kNone, "its numbers are given anew before each run");
    make_memory(node);
    check_written(node);
    BoxedValues results;
    run_.call(node, tensors_, results);
    if (node.form != OpInfo::Form::Plain) return check_same_results(node);
    check(results.size() == node.results.size(), "it gives ", results.size(), " results, not ",
          node.results.size());
    for (size_t i = 0; i < results.size(); ++i) check_result(node.results[i], results[i]);
  }

  // Of a value that no node gives: new memory, which a node fills, or a view of it.
  void make_memory(const Node& node) {
    each_argument(node, [&](ValueId id) {
      if (id < 0 || id >= static_cast<ValueId>(tensors_.size()) || is_made(id)) return;
      const BufferId buffer = graph_.values[id].buffer;
      if (graph_.buffers[buffer].kind == Buffer::Kind::Internal && storages_[buffer] == nullptr &&
          !is_given_[id])
        define(id, Buffer::Kind::Internal, "new memory");
    });
  }

  void check_written(const Node& node) const {
    each_written(node, [&](ValueId id) {
      check(is_made(id), "value ", id, " is written before it is made");
    });
  }

  // Of the in-place form and of `out`: the results are the first arguments, which stay what they
  // are.
  void check_same_results(const Node& node) {
    const bool is_out = node.form == OpInfo::Form::Out;
    const size_t wanted = is_out ? static_cast<size_t>(read_schema(node.op->schema).results) : 1;
    check(node.results.size() == wanted && wanted <= node.arguments.size(), "it writes ", wanted,
          " results, the graph says ", node.results.size());
    for (size_t i = 0; i < node.results.size(); ++i) {
      const auto* result = std::get_if<ValueRef>(&node.results[i]);
      const auto* argument = std::get_if<ValueRef>(&node.arguments[i]);
      check(result != nullptr && argument != nullptr && *result == *argument, "result ", i + 1,
            " is not the argument that it is written to");
      check_geometry(result->id, tensors_[result->id]);
    }
  }

  void check_result(const Result& said, const BoxedValue& given) {
    if (const auto* list = std::get_if<ValueRefs>(&said)) {
      const auto* tensors = std::get_if<std::vector<Tensor>>(&given);
      check(tensors != nullptr && tensors->size() == list->size(), "a result is no list of ",
            list->size(), " tensors");
      for (size_t i = 0; i < list->size(); ++i) check_tensor((*list)[i].id, (*tensors)[i]);
      return;
    }
    const auto* tensor = std::get_if<Tensor>(&given);
    check_tensor(std::get<ValueRef>(said).id, tensor != nullptr ? *tensor : Tensor());
  }

  void check_tensor(ValueId id, const Tensor& given) {
    if (id == kNone) return;
    check(id >= 0 && id < static_cast<ValueId>(tensors_.size()), "there is no value ", id);
    check(given.defined(), "value ", id, " is a result that is not given");
    check_geometry(id, given);
    if (!tensors_[id].defined()) tensors_[id] = given;
  }

  // A result on new memory is its buffer's.
  void check_geometry(ValueId id, const Tensor& given) {
    const Value& value = graph_.values[id];
    check(given.dtype() == value.dtype && given.sizes() == value.sizes, "it gives ", given.dtype(),
          " ", given.sizes(), ", the graph says ", value.dtype, " ", value.sizes);
    check(given.strides() == value.strides && given.offset() == value.offset, "it gives strides ",
          given.strides(), " at ", given.offset(), ", the graph says ", value.strides, " at ",
          value.offset);
    const Storage*& storage = storages_[value.buffer];
    const Buffer& buffer = graph_.buffers[value.buffer];
    if (storage == nullptr && known_.insert(&given.storage()).second) {
      check(buffer.kind == Buffer::Kind::Internal, "it makes value ", id,
            " in the memory of an input or a parameter");
      check(static_cast<int64_t>(given.storage().bytes()) == buffer.bytes, "it makes ",
            static_cast<int64_t>(given.storage().bytes()), " bytes, the graph says ", buffer.bytes);
      storage = &given.storage();
    }
    check(storage == &given.storage(), "value ", id, " is not in the memory that the graph says");
  }

  const Graph& graph_;
  ShapeRun run_;
  std::vector<Tensor> tensors_;               // by value
  std::vector<const Storage*> storages_;      // by buffer; null until a value is made there
  std::vector<bool> is_given_;                // by value
  std::unordered_set<const Storage*> known_;  // those among them
};

}  // namespace

void check_graph(const Graph& graph, DType default_dtype) {
  GraphCheck(graph, default_dtype).check_all();
}

}  // namespace moonlet::program
