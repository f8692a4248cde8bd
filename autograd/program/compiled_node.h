// autograd/program/compiled_node.h: one run of a captured function on the tape.
#pragma once

#include <optional>

#include "autograd/engine.h"
#include "autograd/program/recorded_program.h"
#include "tensor/runtime/random_generator.h"

namespace moonlet::program {

// The numbers of a past run are drawn again, for a C++ scope.
class DrawnAgain {
 public:
  explicit DrawnAgain(const std::optional<Philox>& from) {
    if (!from) return;
    before_ = default_generator().state();
    default_generator().set_state(*from);
  }
  ~DrawnAgain() {
    if (before_) default_generator().set_state(*before_);
  }
  DrawnAgain(const DrawnAgain&) = delete;
  DrawnAgain& operator=(const DrawnAgain&) = delete;

 private:
  std::optional<Philox> before_;
};

// What a result that lies on the memory of a given tensor shows of that.
Tensor show(const Seen& seen, const Tensor& given);

class CompiledNode final : public moonlet::Node {
 public:
  // Before the run: with the histories that the inputs have, and what the run changes as it is.
  CompiledNode(std::shared_ptr<RecordedProgram> program, std::span<const Tensor> inputs);
  // After it: `outputs` of the forward graph, which have no history yet.
  void keep(std::span<const Tensor> inputs, const std::vector<Tensor>& outputs);

  const char* name() const override { return "CompiledBackward"; }
  void apply(Tensor* grads, Tensor* out, Wanted& wanted) override;
  void release_saved() override;

 private:
  void check_kept() const;
  PassStart start_of(Tensor* grads) const;
  ReadyPass* find_pass(const PassStart& start);
  StandIns stand_ins();
  Tensor stand_in(Given which);
  bool is_unchanged();
  void run(ReadyPass& pass, Tensor* grads, Tensor* out, const Wanted& wanted);
  void run_again(Tensor* grads, Tensor* out);
  void give_parts(const std::vector<ReachingGradients>& found, const std::vector<int>& targets,
                  Tensor* out) const;
  Tensor input(const BackwardGraph::Input& input, const Value& like, Tensor* grads);
  Saved& given(Given which) {
    return given_[which.is_parameter ? program_->graphs().forward.inputs.size() + which.index
                                     : which.index];
  }
  Tensor as_it_was(Given which);

  const std::shared_ptr<RecordedProgram> program_;
  std::vector<Saved> given_;    // all that was given: inputs, then parameters
  std::vector<Saved> changed_;  // by RecordedGraphs::changed: copies from before the run
  std::vector<Saved> kept_;     // by RecordedGraphs::kept
  std::optional<Philox> random_;
  bool released_ = false;
};

}  // namespace moonlet::program
