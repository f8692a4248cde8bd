// autograd/program/compiled_node.h: one run of a captured function on the tape.
#pragma once

#include <optional>

#include "autograd/program/recorded_program.h"
#include "tensor/runtime/random_generator.h"

namespace moonlet::program {

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
  const BackwardGraph* find(const Tensor* grads, size_t& at) const;
  void run(size_t at, Tensor* grads, Tensor* out, const Wanted& wanted);
  void run_again(Tensor* grads, Tensor* out);
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
