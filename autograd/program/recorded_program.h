// autograd/program/recorded_program.h: a captured function with gradients, ready to run: each run
// is one node of the tape, whose backward is a plan too.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "autograd/program/trace_again.h"
#include "tensor/program/runner.h"
#include "tensor/runtime/execution.h"

namespace moonlet::program {

// What the nodes of each source of numbers get in a run (Runner::set_numbers).
using Numbers = std::vector<std::vector<BoxedValue>>;

// Ops compute with integers in that dtype, for a C++ scope.
class DefaultDType {
 public:
  explicit DefaultDType(std::optional<DType> dtype) : before_(execution.default_dtype) {
    if (dtype) execution.default_dtype = *dtype;
  }
  ~DefaultDType() { execution.default_dtype = before_; }
  DefaultDType(const DefaultDType&) = delete;
  DefaultDType& operator=(const DefaultDType&) = delete;

 private:
  const DType before_;
};

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

// A backward pass that is ready to run. The runners of its parts are made when they are wanted.
class ReadyPass {
 public:
  ReadyPass(BackwardPass pass, std::optional<DType> default_dtype)
      : pass_(std::move(pass)),
        strides_(pass_.strides()),
        default_dtype_(default_dtype),
        sums_(pass_.sums.graph, default_dtype) {}
  const BackwardPass& graphs() const { return pass_; }
  bool starts_at(const PassStart& start) const {
    return pass_.from == start.from && strides_ == start.strides;
  }
  Runners& runners(bool apart);

 private:
  const BackwardPass pass_;
  const std::vector<Dims> strides_;
  const std::optional<DType> default_dtype_;
  Runners sums_;
  std::mutex mutex_;
  std::unique_ptr<Runners> parts_;
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
  // How many backward passes have plans: those that were captured, and those of other results or
  // strides that have come since.
  size_t pass_count();

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
  // The pass from there, or null.
  ReadyPass* find(const PassStart& start);
  // One from the same results, of other strides, or null.
  ReadyPass* find_from(const std::vector<int>& from);
  // Whether passes may still be made beside those that were captured.
  bool takes_more();
  // False when it was found that the function, run again op by op, leaves another tape.
  bool runs_alike();
  // Makes the pass from there; null where the function does not run alike.
  ReadyPass* add(const PassStart& start, StandIns given);

  RecordedGraphs graphs_;
  Runners forward_;
  std::vector<int> parameters_;  // by parameter of the forward graph: index into all
  std::mutex mutex_;             // for what follows
  std::vector<std::unique_ptr<ReadyPass>> passes_;
  bool runs_alike_ = true;
};

}  // namespace moonlet::program
