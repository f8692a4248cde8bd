// tensor/program/shape_run.h: runs the nodes of a graph on the device without memory, to learn what
// they give or to check what a graph says about it.
#pragma once

#include <string>
#include <vector>

#include "tensor/program/graph.h"
#include "tensor/runtime/execution.h"
#include "tensor/runtime/random_generator.h"

namespace moonlet::program {

// "node 3, conv2d at net.lua:12": for messages.
std::string node_name(const Graph& graph, size_t node);

class ShapeRun {
 public:
  // Ops make numbers of integers in `default_dtype`.
  explicit ShapeRun(DType default_dtype);
  ~ShapeRun();
  ShapeRun(const ShapeRun&) = delete;
  ShapeRun& operator=(const ShapeRun&) = delete;

  // A tensor that a node may use, on a new storage of that size.
  static Tensor on_new_storage(const Value& value, int64_t bytes);
  // Calls the op of a node, which gets tensors[id] for a value: refuses arguments that the op does
  // not check itself, as their number and dims beyond the rank. `results` are those of the boxed
  // call.
  void call(const Node& node, const std::vector<Tensor>& tensors, BoxedValues& results);

 private:
  Generator generator_;
  ExecutionState state_;
  const ExecutionState before_;
};

}  // namespace moonlet::program
