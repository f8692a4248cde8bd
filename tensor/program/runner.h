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
#include "tensor/program/strip_call.h"

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
  // The tensor of a parameter from now on, by its position in the graph; of the same geometry.
  void set_parameter(size_t index, const Tensor& t) { parameters_[index] = t; }
  // "train.lua:12": the script's line of the op that ran last, or "".
  const std::string& line() const;
  const Plan& plan() const { return *plan_; }
  const cpu::PreparedOperands& prepared_operands() const { return prepared_operands_; }

 private:
  // A pointwise op, with what its layout refers to.
  struct PointwiseCall {
    std::vector<Scalar> numbers;  // by operand
    std::vector<Scalar> params;
    PreparedPointwise prepared;
    Tensor changed;  // what scripts may see change; undefined where nobody does
  };
  using Changes = std::vector<std::pair<const char*, Tensor>>;  // by an op
  // The addresses of a loop, and what scripts may see change.
  struct LoopCall {
    std::vector<char*> addresses;
    Changes changed;
  };
  // The same of a strip.
  struct OfStrip {
    StripCall call;
    std::vector<StripCall::Home> homes;
    Changes changed;
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
  // Where an output of the graph comes from.
  struct OutputFrom {
    enum class Kind : uint8_t {
      Input,      // is one
      Parameter,  // is one
      Made,       // lies in memory that the plan makes for it
      View        // on other memory
    };
    Kind kind = Kind::View;
    int32_t index = 0;  // of an input or a parameter
  };
  class Unbind;

  void note_outputs();
  void allow_prepared();
  void check_inputs(std::span<const Tensor> inputs) const;
  void check_apart(std::span<const Tensor> inputs) const;
  void bind(BufferId buffer, Storage& storage, int64_t shift, bool given = false);
  void bind_all(std::span<const Tensor> inputs, std::span<const Tensor> outputs);
  void bind_outputs(std::span<const Tensor> inputs, std::span<const Tensor> outputs);
  void bind_arena();
  void prepare();
  void prepare_call(int step);
  void prepare_loop(int step);
  void prepare_strip(int step);
  void add_changes(const std::vector<int32_t>& nodes, Changes& to);
  bool prepare_pointwise_call(int step);
  BoxedValue boxed(const Argument& argument);
  const Tensor& tensor(ValueId id);
  Tensor placed(ValueId id);
  Tensor make_tensor(ValueId id);
  void run_loop(const LoopStep& loop, LoopCall& call);
  void run_strip(const Strip& strip, OfStrip& own);
  static void note_changes(const Changes& changes);
  int32_t blamed(const std::vector<int32_t>& nodes, const Error& e) const;
  void run_step(int step);
  void take_results(const Node& node);
  void take_result(ValueId id, const Tensor& made);
  Tensor output(size_t i, std::span<const Tensor> inputs) const;
  void give_outputs(std::span<const Tensor> inputs, std::vector<Tensor>& outputs);

  const std::shared_ptr<const Plan> plan_;
  std::vector<Tensor> parameters_;  // by position in the graph
  cpu::PreparedOperands prepared_operands_;
  std::vector<Tensor> tensors_;                            // by value: those that calls take
  std::vector<OnBuffer> on_;                               // by buffer
  std::vector<std::unique_ptr<PointwiseCall>> pointwise_;  // by step
  std::vector<std::unique_ptr<Call>> calls_;               // by step
  std::vector<std::unique_ptr<LoopCall>> loops_;           // by step
  std::vector<OutputFrom> outputs_from_;                   // by output
  std::vector<BufferId> made_;                             // in memory that each run makes
  std::vector<BufferId> loose_;                            // that belong to one run
  std::vector<std::pair<int32_t, int32_t>> numbered_;      // sources of numbers, and steps
  std::vector<std::unique_ptr<OfStrip>> strips_;           // by step
  BoxedValues results_;
  std::vector<bool> seen_;                        // by buffer: inputs that are bound
  std::vector<std::vector<BoxedValue>> numbers_;  // by source: those that were given last
  bool prepared_ = false;
  int32_t at_ = kNone;  // the node that runs, or ran last
};

}  // namespace moonlet::program
