// autograd/program/recorded_program.h: a captured function with gradients, ready to run: each run
// is one node of the tape, whose backward is a plan too.
#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "autograd/program/recorded_graphs.h"
#include "tensor/program/runner.h"

namespace moonlet::program {

// What the nodes of each source of numbers get in a run (Runner::set_numbers).
using Numbers = std::vector<std::vector<BoxedValue>>;

// The runners of a plan, one for each thread that runs it at a time.
class Runners {
 public:
  explicit Runners(Graph graph, std::optional<DType> default_dtype = {})
      : plan_(Plan::make(std::move(graph))), default_dtype_(default_dtype) {}
  void run(std::span<const Tensor> inputs, std::vector<Tensor>& outputs,
           const Numbers& numbers = {});
  const Plan& plan() const { return *plan_; }

 private:
  const std::shared_ptr<const Plan> plan_;
  const std::optional<DType> default_dtype_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Runner>> idle_;
};

class RecordedProgram : public std::enable_shared_from_this<RecordedProgram> {
 public:
  static std::shared_ptr<RecordedProgram> make(RecordedGraphs graphs);

  // Runs the function. The results are those of the captured run: new tensors, the inputs and
  // parameters, and views. While grad mode is on those that depend on what requires grad have the
  // history `CompiledBackward`; later derivatives than the first run the function again, op by op.
  // Thread-safe.
  void run(std::span<const Tensor> inputs, std::vector<Tensor>& outputs,
           const Numbers& numbers = {});

  const RecordedGraphs& graphs() const { return graphs_; }
  const Plan& forward() const { return forward_.plan(); }

 private:
  friend class CompiledNode;
  explicit RecordedProgram(RecordedGraphs graphs);

  const Tensor& given(std::span<const Tensor> inputs, Given which) const {
    return which.is_parameter ? graphs_.parameters[which.index] : inputs[which.index];
  }
  NodeRef record(std::span<const Tensor> inputs);
  void give_histories(const NodeRef& node, const std::vector<Tensor>& made) const;
  Tensor result(const FunctionResult& result, std::span<const Tensor> inputs,
                const std::vector<Tensor>& made, const NodeRef& node) const;
  Runners& backward(int at, bool apart);

  RecordedGraphs graphs_;
  Runners forward_;
  std::mutex mutex_;
  // By backward pass; those that give the parts of sums are made when they are wanted.
  std::vector<std::unique_ptr<Runners>> sums_, parts_;
  std::vector<int> parameters_;  // by parameter of the forward graph: index into all
};

}  // namespace moonlet::program
