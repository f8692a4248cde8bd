// tensor/program/runner.h: the memory of one thread for a plan, and running it: a list of calls on
// tensors and layouts that are made once; between runs only addresses change.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tensor/cpu/common/prepared_operands.h"
#include "tensor/pointwise/run.h"
#include "tensor/program/plan.h"

namespace moonlet::program {

class Runner {
 public:
  // `prepares`: what kernels make of parameters that the program does not write, such as another
  // layout, is kept from run to run.
  explicit Runner(std::shared_ptr<const Plan> plan, bool prepares = false);
  ~Runner();
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;

  // Runs the program. The inputs must have the geometry of the graph's. Outputs that are given and
  // have that of the graph's are written; the others become new tensors, or the inputs and
  // parameters that they are. Throws as the ops do; what was written in place until then stays.
  void run(std::span<const Tensor> inputs, std::vector<Tensor>& outputs);
  // Before a run: what the nodes of a source of numbers (Node::numbers) get instead of theirs, in
  // order; of the same kinds.
  void set_numbers(int32_t source, std::span<const BoxedValue> numbers);
  // "train.lua:12": the script's line of the op that ran last, or "".
  const std::string& line() const;
  const Plan& plan() const { return *plan_; }
  const cpu::PreparedOperands& prepared_operands() const { return prepared_operands_; }

 private:
  // A pointwise op, with what its layout refers to.
  struct PointwiseCall {
    std::vector<Operand> operands;
    std::vector<Scalar> params;
    PreparedPointwise prepared;
    Tensor changed;  // what scripts may see change; undefined where nobody does
  };
  // The addresses of a loop, and what scripts may see change.
  struct LoopCall {
    std::vector<char*> addresses;
    std::vector<std::pair<const char*, Tensor>> changed;  // by an op
  };
  struct Call {
    std::vector<BoxedValue> arguments;
    RawOp::Call form = nullptr;
    decltype(RawOp::kernel) kernel = nullptr;  // instead of a form, with `results`
    std::vector<Tensor> results;
    RawOp::Call copy = nullptr;  // of Step::Kind::Copied, to run first
    std::vector<BoxedValue> copied;
  };
  void give_numbers(Call& call, int32_t source) const;

  // An address within a buffer that some layout holds.
  struct Patch {
    char** where;
    int64_t offset;  // in bytes
  };
  struct OnBuffer {
    std::vector<ValueId> tensors;
    std::vector<Patch> patches;
    Storage* storage = nullptr;  // where it lies; counted
    Storage* idle = nullptr;     // where its tensors lie between runs; counted
    int64_t shift = 0;           // in bytes: where offset 0 lies in the storage
  };
  class Unbind;

  void check_inputs(std::span<const Tensor> inputs) const;
  void check_apart(std::span<const Tensor> inputs) const;
  void bind(BufferId buffer, Storage& storage, int64_t shift);
  void bind_all(std::span<const Tensor> inputs, std::span<const Tensor> outputs);
  void bind_outputs(std::span<const Tensor> inputs, std::span<const Tensor> outputs);
  void bind_arena();
  void prepare();
  void prepare_call(int step);
  void prepare_loop(int step);
  bool prepare_pointwise_call(int step);
  BoxedValue boxed(const Argument& argument);
  const Tensor& tensor(ValueId id);
  Tensor make_tensor(ValueId id);
  void run_loop(const LoopStep& loop, LoopCall& call);
  void run_step(int step);
  void take_results(const Node& node);
  void take_result(ValueId id, const Tensor& made);
  void give_outputs(std::span<const Tensor> inputs, std::vector<Tensor>& outputs);

  const std::shared_ptr<const Plan> plan_;
  cpu::PreparedOperands prepared_operands_;
  std::vector<Tensor> tensors_;                            // by value: those that calls take
  std::vector<OnBuffer> on_;                               // by buffer
  std::vector<std::unique_ptr<PointwiseCall>> pointwise_;  // by step
  std::vector<std::unique_ptr<Call>> calls_;               // by step
  std::vector<std::unique_ptr<LoopCall>> loops_;           // by step
  BoxedValues results_;
  std::vector<bool> seen_;                        // by buffer: inputs that are bound
  std::vector<std::vector<BoxedValue>> numbers_;  // by source: those that were given last
  bool prepared_ = false;
  int32_t at_ = kNone;  // the node that runs, or ran last
};

}  // namespace moonlet::program
