// tests/cpp/program/fusion_harness.cpp: the memory of a graph, and its nodes and loops run on it.
#include "tests/cpp/program/fusion_harness.h"

#include <cstring>
#include <map>

#include "tensor/core/dispatch.h"
#include "tensor/core/plain_copy.h"

namespace moonlet::fusion_test {

namespace {

using program::BufferId;
using program::Graph;
using program::Group;
using program::Node;
using program::ValueId;

class Memory {
 public:
  Memory(const Graph& graph, const Tensors& inputs) : graph_(graph) {
    storages_.resize(graph.buffers.size());
    for (size_t i = 0; i < inputs.size(); ++i)
      hold(graph.values[graph.inputs[i]].buffer, inputs[i].storage());
    for (const program::Parameter& p : graph.parameters)
      hold(graph.values[p.value].buffer, p.tensor.storage());
    for (size_t b = 0; b < storages_.size(); ++b) {
      if (storages_[b]) continue;
      const auto bytes = static_cast<size_t>(graph.buffers[b].bytes);
      storages_[b] = Storage::allocate(std::max<size_t>(bytes, 1), graph.buffers[b].device);
      std::memset(storages_[b]->data(), 0xa5, bytes);
    }
  }
  ~Memory() {
    for (Storage* each : storages_) each->release();
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  Tensor tensor(ValueId id) const {
    const program::Value& v = graph_.values[id];
    return view_of(*storages_[v.buffer], v.sizes, v.strides, v.offset, v.dtype);
  }
  char* address(BufferId b) const { return storages_[b]->data(); }

  void run(const Group& group) const {
    if (!group.loop) return run(graph_.nodes[group.nodes[0]]);
    std::vector<char*> addresses;
    for (const BufferId b : group.slots) addresses.push_back(address(b));
    program::make_executor(*group.loop)->run(addresses.data());
  }

 private:
  void hold(BufferId buffer, Storage& storage) {
    if (storages_[buffer]) return;
    storage.retain();
    storages_[buffer] = &storage;
  }

  void run(const Node& node) const {
    BoxedValues arguments, results;
    for (const program::Argument& each : node.arguments) {
      if (const auto* one = std::get_if<program::ValueRef>(&each)) {
        arguments.emplace_back(tensor(one->id));
      } else if (const auto* list = std::get_if<program::ValueRefs>(&each)) {
        Tensors all;
        for (const auto& ref : *list) all.push_back(tensor(ref.id));
        arguments.emplace_back(all);
      } else {
        arguments.push_back(std::get<BoxedValue>(each));
      }
    }
    node.op->form(node.form)(arguments, results);
    if (node.form != OpInfo::Form::Plain) return;
    size_t i = 0;
    program::each_result(node, [&](ValueId id) {
      Tensor to = tensor(id);
      copy_plain(to, std::get<Tensor>(results[i++]), "test");
    });
  }

  const Graph& graph_;
  std::vector<Storage*> storages_;
};

bool same_bits(const Tensor& a, const Tensor& b) {
  if (!(a.sizes() == b.sizes()) || a.dtype() != b.dtype()) return false;
  Tensor x = empty_plain(a.sizes(), {a.dtype(), {}}), y = empty_plain(a.sizes(), {a.dtype(), {}});
  copy_plain(x, a, "test");
  copy_plain(y, b, "test");
  const auto bytes = static_cast<size_t>(x.numel()) * size_of(x.dtype());
  return bytes == 0 || std::memcmp(x.raw(), y.raw(), bytes) == 0;
}

bool same_bytes(const Storage& a, const Storage& b) {
  return a.bytes() == b.bytes() &&
         (a.bytes() == 0 || std::memcmp(a.data(), b.data(), a.bytes()) == 0);
}

}  // namespace

Tensor fresh(const Dims& sizes, DType dtype, std::mt19937& random) {
  Tensor numbers = empty_plain(sizes, {DType::Float64, {}});
  const bool whole = random() % 3 == 0;
  for (int64_t i = 0; i < numbers.numel(); ++i) {
    const double x = static_cast<double>(random() % 4096) / 512 - (random() % 2 ? 4 : 0);
    numbers.data<double>()[i] = whole ? static_cast<double>(static_cast<int>(x)) : x;
  }
  if (numbers.numel() > 5 && random() % 2) {
    numbers.data<double>()[1] = 0.0 / 0.0;
    numbers.data<double>()[4] = -0.0;
  }
  Tensor out = empty_plain(sizes, {dtype, {}});
  copy_plain(out, numbers, "test");
  return out;
}

Tensors copies(const Tensors& list) {
  std::map<const Storage*, Tensor> held;
  Tensors out;
  for (const Tensor& t : list) {
    const auto bytes = static_cast<int64_t>(t.storage().bytes());
    auto [at, is_new] = held.try_emplace(&t.storage());
    if (is_new) {
      at->second = empty_plain({std::max<int64_t>(bytes, 1)}, {DType::UInt8, {}});
      std::memset(at->second.storage().data(), 0, static_cast<size_t>(std::max<int64_t>(bytes, 1)));
      if (bytes > 0)
        std::memcpy(at->second.storage().data(), t.storage().data(), static_cast<size_t>(bytes));
    }
    out.push_back(view_of(at->second.storage(), t.sizes(), t.strides(), t.offset(), t.dtype()));
  }
  return out;
}

Graph graph_of(const Function& f, const Tensors& inputs, Tensors& outputs) {
  program::Capture capture;
  {
    const program::CaptureScope scope(capture);
    for (const Tensor& t : inputs) capture.add_input(t);
    outputs = f(inputs);
  }
  for (const Tensor& t : outputs) capture.add_output(t);
  if (capture.stopped()) fail("test: ", *capture.stopped());
  return capture.take();
}

Outcome check_bits(const Tensors& inputs, const Function& f) {
  const Tensors eager = copies(inputs), given = copies(inputs);
  Tensors expected;
  const Graph graph = graph_of(f, eager, expected);
  const std::vector<Group> groups = program::group(graph);
  Outcome outcome;
  outcome.text = to_string(graph) + to_string(graph, groups);
  const Memory memory(graph, given);
  for (const Group& each : groups) {
    outcome.nodes += static_cast<int>(each.nodes.size());
    outcome.loops += each.loop ? 1 : 0;
    outcome.fused += each.loop ? static_cast<int>(each.nodes.size()) : 0;
    memory.run(each);
  }
  outcome.same = true;
  for (size_t i = 0; i < expected.size(); ++i) {
    if (same_bits(expected[i], memory.tensor(graph.outputs[i]))) continue;
    outcome.same = false;
    outcome.text += "output " + std::to_string(i + 1) + " differs\n";
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (same_bytes(eager[i].storage(), given[i].storage())) continue;
    outcome.same = false;
    outcome.text += "the memory of input " + std::to_string(i + 1) + " differs\n";
  }
  return outcome;
}

}  // namespace moonlet::fusion_test
