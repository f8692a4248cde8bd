// autograd/program/recorded_program.cpp: runs of a captured function, and the nodes that they are
// on the tape.
#include "autograd/program/recorded_program.h"

#include <algorithm>

#include "autograd/history.h"
#include "autograd/program/compiled_node.h"
#include "tensor/core/dispatch.h"

namespace moonlet::program {

void Runners::run(std::span<const Tensor> inputs, std::vector<Tensor>& outputs,
                  const Numbers& numbers) {
  std::unique_ptr<Runner> runner;
  {
    const std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      runner = std::move(idle_.back());
      idle_.pop_back();
    }
  }
  if (!runner) runner = std::make_unique<Runner>(plan_);
  for (size_t i = 0; i < numbers.size(); ++i)
    runner->set_numbers(static_cast<int32_t>(i), numbers[i]);
  const DefaultDType computing(default_dtype_);
  // One that threw is not used again.
  runner->run(inputs, outputs);
  const std::lock_guard lock(mutex_);
  idle_.push_back(std::move(runner));
}

std::shared_ptr<RecordedProgram> RecordedProgram::make(RecordedGraphs graphs) {
  return std::shared_ptr<RecordedProgram>(new RecordedProgram(std::move(graphs)));
}

RecordedProgram::RecordedProgram(RecordedGraphs graphs)
    : graphs_(std::move(graphs)), forward_(graphs_.forward, graphs_.default_dtype) {
  for (const BackwardPass& each : graphs_.backward)
    passes_.push_back(std::make_unique<ReadyPass>(each, graphs_.default_dtype));
  for (const Parameter& p : graphs_.forward.parameters) {
    const auto found = std::find_if(graphs_.parameters.begin(), graphs_.parameters.end(),
                                    [&](const Tensor& each) { return each.is_same(p.tensor); });
    parameters_.push_back(static_cast<int>(found - graphs_.parameters.begin()));
  }
}

// The node of a run that is about to be made, or null where nothing is recorded.
NodeRef RecordedProgram::record(std::span<const Tensor> inputs) {
  if (!grad_enabled() || graphs_.output_count == 0) return {};
  const bool required =
      std::any_of(graphs_.targets.begin(), graphs_.targets.end(),
                  [&](Given each) { return given(inputs, each).requires_grad(); });
  return required ? NodeRef(new CompiledNode(shared_from_this(), inputs)) : NodeRef();
}

Runners& ReadyPass::runners(bool apart) {
  if (!apart) return sums_;
  const std::lock_guard lock(mutex_);
  if (!parts_) parts_ = std::make_unique<Runners>(pass_.parts.graph, default_dtype_);
  return *parts_;
}

ReadyPass* RecordedProgram::find(const PassStart& start) {
  const std::lock_guard lock(mutex_);
  for (const auto& each : passes_)
    if (each->starts_at(start)) return each.get();
  return nullptr;
}

ReadyPass* RecordedProgram::find_from(const std::vector<int>& from) {
  const std::lock_guard lock(mutex_);
  for (const auto& each : passes_)
    if (each->graphs().from == from) return each.get();
  return nullptr;
}

size_t RecordedProgram::pass_count() {
  const std::lock_guard lock(mutex_);
  return passes_.size();
}

bool RecordedProgram::takes_more() {
  constexpr size_t kMostMore = 8;
  const std::lock_guard lock(mutex_);
  return runs_alike_ && passes_.size() < graphs_.backward.size() + kMostMore;
}

bool RecordedProgram::runs_alike() {
  const std::lock_guard lock(mutex_);
  return runs_alike_;
}

ReadyPass* RecordedProgram::add(const PassStart& start, StandIns given) {
  given.used = parameters_;
  const DrawnAgain as_before(default_generator().state());
  const DefaultDType computing(graphs_.default_dtype);
  auto pass = trace_again(graphs_, given, start);
  auto ready =
      pass ? std::make_unique<ReadyPass>(*std::move(pass), graphs_.default_dtype) : nullptr;
  const std::lock_guard lock(mutex_);
  if (ready == nullptr) {
    runs_alike_ = false;
    return nullptr;
  }
  // Another thread may have made it, too.
  passes_.push_back(std::move(ready));
  return passes_.back().get();
}

Tensor RecordedProgram::result(const FunctionResult& result, std::span<const Tensor> inputs,
                               const std::vector<Tensor>& made, const NodeRef& node) const {
  using Kind = FunctionResult::Kind;
  if (result.kind == Kind::Made) return made[result.made];
  const Tensor base = result.kind == Kind::View && result.made != kNone
                          ? made[result.made]
                          : given(inputs, result.seen.given);
  if (result.kind == Kind::Given) return base;
  if (result.kind == Kind::Seen) return show(result.seen, base);
  const GradModeGuard mode(grad_enabled() && !result.no_grad);
  Tensor out = base;
  for (const ViewRecipe::Step& step : result.steps) out = step(out);
  // It is a view of its base to the tape, with the history that it had inside of the function.
  if (node && result.output != kNone) {
    node->set_output(result.output, out);
    set_history(out, node, result.output);
  }
  return out;
}

void RecordedProgram::give_histories(const NodeRef& node, const std::vector<Tensor>& made) const {
  for (size_t m = 0; m < graphs_.made.size(); ++m)
    if (graphs_.made[m] != kNone) node->set_output(graphs_.made[m], made[m]);
  node->number();
  for (size_t m = 0; m < graphs_.made.size(); ++m)
    if (graphs_.made[m] != kNone) set_history(made[m], node, graphs_.made[m]);
}

void RecordedProgram::run(std::span<const Tensor> inputs, std::vector<Tensor>& outputs,
                          const Numbers& numbers) {
  check(inputs.size() == graphs_.forward.inputs.size(), "program: expected ",
        graphs_.forward.inputs.size(), " inputs, got ", inputs.size());
  const NodeRef node = record(inputs);
  std::vector<Tensor> made;
  forward_.run(inputs, made, numbers);
  if (node) {
    static_cast<CompiledNode&>(*node).keep(inputs, made);
    give_histories(node, made);
  }
  outputs.clear();
  for (const FunctionResult& each : graphs_.results)
    outputs.push_back(each.kind == FunctionResult::Kind::Again ? outputs[each.earlier]
                                                               : result(each, inputs, made, node));
}

}  // namespace moonlet::program
