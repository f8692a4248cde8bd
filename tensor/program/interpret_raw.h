// tensor/program/interpret_raw.h: runs a graph node by node, each by its op without the tape: what
// everything else that runs graphs is compared with.
#pragma once

#include <span>
#include <vector>

#include "tensor/program/graph.h"

namespace moonlet::program {

// The tensors that a graph works on during one run, by value: memory comes with the nodes that make
// it, and stays until this goes.
class Memory {
 public:
  // `inputs` are of the sizes, strides and dtypes of the graph's. Parameters are the graph's own
  // tensors unless given; what the graph writes is written.
  Memory(const Graph& graph, std::span<const Tensor> inputs);
  // Without inputs: for nodes that depend on parameters alone.
  explicit Memory(const Graph& graph);
  Memory(const Graph& graph, std::span<const Tensor> inputs, std::span<const Tensor> parameters);

  // The tensor of a value, made of its geometry where no node gave one.
  const Tensor& tensor(ValueId id);
  // Runs one node, when those before it have run.
  void run(const Node& node);

 private:
  void give_parameters(std::span<const Tensor> parameters);
  void give(ValueId id, const Tensor& t);
  BoxedValue boxed(const Argument& argument);
  void take(const Result& result, const BoxedValue& given, const Node& node);

  const Graph& graph_;
  std::vector<Tensor> tensors_;  // by value; undefined until it is known
  struct Base {
    Tensor any;         // some tensor on the storage
    int64_t moved = 0;  // bytes between where a value lies here and where the graph says
  };
  std::vector<Base> bases_;  // by buffer
};

// The outputs. Throws what an op throws, and for inputs that are not of the graph's geometry.
std::vector<Tensor> interpret_raw(const Graph& graph, std::span<const Tensor> inputs);
std::vector<Tensor> interpret_raw(const Graph& graph, std::span<const Tensor> inputs,
                                  std::span<const Tensor> parameters);

}  // namespace moonlet::program
