// autograd/program/recorded_program.cpp: runs of a captured function, and the nodes that they are
// on the tape.
#include "autograd/program/recorded_program.h"

#include <algorithm>

#include "autograd/engine.h"
#include "autograd/forward_mode.h"
#include "autograd/history.h"
#include "autograd/program/compiled_node.h"
#include "autograd/program/interpret.h"
#include "autograd/uses_program_recorded_program.h"
#include "tensor/core/dispatch.h"
#include "tensor/core/plain_copy.h"
#include "tensor/program/captured_call.h"

namespace moonlet::program {

namespace {

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

Tensor show(const Seen& seen, const Tensor& given) {
  if (seen.whole) return shallow_copy(given);
  return alias(given, seen.sizes, seen.strides, given.offset() + seen.offset);
}

// `g` with the geometry of the graph's value; a copy where it lies otherwise, or where the graph
// writes it and somebody else has it.
Tensor laid_out(Tensor g, const Value& like, bool written) {
  const bool fits = g.strides() == like.strides && g.dtype() == like.dtype;
  const bool own = !written || (is_sole_handle(g) && g.storage().sole_owner());
  if (fits && own) return g;
  Tensor out = empty_strided(like.sizes, like.strides, {like.dtype, g.device()}, "backward");
  copy_plain(out, g, "backward");
  return out;
}

}  // namespace

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

// --- a run as a node -----------------------------------------------------------------------------

CompiledNode::CompiledNode(std::shared_ptr<RecordedProgram> program, std::span<const Tensor> inputs)
    : program_(std::move(program)) {
  const RecordedGraphs& graphs = program_->graphs();
  for (size_t i = 0; i < graphs.targets.size(); ++i) {
    const Edge edge = edge_of(program_->given(inputs, graphs.targets[i]));
    for (int way = 0; way < graphs.ways[i]; ++way) edges.push_back(edge);
  }
  if (graphs.is_freed) return;
  if (graphs.is_random) random_ = default_generator().state();
  if (!graphs.runs_once.empty()) return;
  for (const Given each : graphs.changed)
    changed_.emplace_back().save(clone_plain(program_->given(inputs, each)));
}

void CompiledNode::keep(std::span<const Tensor> inputs, const std::vector<Tensor>& outputs) {
  const RecordedGraphs& graphs = program_->graphs();
  if (graphs.is_freed) return;
  const auto save = [&](const Tensor& t, Given which) {
    const bool read =
        std::find(graphs.reads.begin(), graphs.reads.end(), which) != graphs.reads.end();
    Saved& saved = given_.emplace_back();
    // Eager code refuses to save those too, but does not save all.
    if (read || !t.storage().is_inference()) saved.save(t);
  };
  given_.reserve(inputs.size() + graphs.parameters.size());
  for (size_t i = 0; i < inputs.size(); ++i) save(inputs[i], {false, static_cast<int>(i)});
  for (size_t i = 0; i < graphs.parameters.size(); ++i)
    save(graphs.parameters[i], {true, static_cast<int>(i)});
  kept_.reserve(graphs.kept.size());
  for (const int output : graphs.kept) kept_.emplace_back().save(outputs[output]);
}

void CompiledNode::release_saved() {
  released_ = true;
  given_.clear();
  changed_.clear();
  kept_.clear();
}

void CompiledNode::check_kept() const {
  if (!released_ && !program_->graphs().is_freed) return;
  fail(
      "backward: the tensors CompiledBackward saved are freed already: this graph was used by an "
      "earlier backward; pass retain_graph = true there to use it again");
}

// The pass from just those gradients that are given, by its index; kNone where there is none.
int CompiledNode::find_pass(const Tensor* grads) const {
  const std::vector<BackwardPass>& all = program_->graphs().backward;
  std::vector<int> from;
  for (int i = 0; i < output_count(); ++i) {
    if (!grads[i].defined()) continue;
    if (grads[i].device().is_batched()) return kNone;
    from.push_back(i);
  }
  const auto found = std::find_if(all.begin(), all.end(),
                                  [&](const BackwardPass& pass) { return pass.from == from; });
  return found == all.end() ? kNone : static_cast<int>(found - all.begin());
}

void CompiledNode::apply(Tensor* grads, Tensor* out, Wanted& wanted) {
  if (program_->graphs().is_freed) check_kept();
  if (execution.capture != nullptr) stop_capture(name(), "runs compiled code");
  const int pass = derivatives_wanted() ? kNone : find_pass(grads);
  if (pass == kNone) return run_again(grads, out);
  run(pass, grads, out, wanted);
}

Tensor CompiledNode::input(const BackwardGraph::Input& input, const Value& like, Tensor* grads) {
  using Kind = BackwardGraph::Input::Kind;
  if (input.kind == Kind::Gradient)
    return laid_out(std::move(grads[input.index]), like, input.written);
  check_kept();
  if (input.kind == Kind::Kept) return kept_[input.index].unpack(*this);
  const Tensor t = given(input.seen.given).unpack(*this);
  return input.seen.whole ? t : show(input.seen, t);
}

void CompiledNode::run(int at, Tensor* grads, Tensor* out, const Wanted& wanted) {
  const BackwardPass& pass = program_->graphs().backward[at];
  const bool apart = std::any_of(pass.parts.edges.begin(), pass.parts.edges.end(),
                                 [&](int edge) { return has_gradient_so_far(edges[edge]); });
  const BackwardGraph& graph = apart ? pass.parts : pass.sums;
  std::vector<Tensor> inputs, outputs;
  inputs.reserve(graph.inputs.size());
  for (size_t i = 0; i < graph.inputs.size(); ++i)
    inputs.push_back(input(graph.inputs[i], graph.graph.values[graph.graph.inputs[i]], grads));
  program_->backward(at, apart).run(inputs, outputs);
  for (size_t i = 0; i < outputs.size(); ++i) {
    const int edge = graph.edges[i];
    if (wanted(edges[edge])) out[edge] = std::move(outputs[i]);
  }
}

// What was given, with its history, as it was before the run.
Tensor CompiledNode::as_it_was(Given which) {
  const std::vector<Given>& changed = program_->graphs().changed;
  const auto found = std::find(changed.begin(), changed.end(), which);
  if (found != changed.end()) return clone_plain(changed_[found - changed.begin()].unpack(*this));
  const Tensor t = given(which).unpack(*this);
  check(t.defined(),
        "backward: derivatives beyond the first run a compiled function again, and one of its "
        "inputs was made in inference mode");
  return t;
}

// Derivatives that no graph was made for: the function runs again op by op, on the tape.
void CompiledNode::run_again(Tensor* grads, Tensor* out) {
  const RecordedGraphs& graphs = program_->graphs();
  check_kept();
  check(graphs.runs_once.empty(),
        "backward: derivatives beyond the first run a compiled function again, and ",
        graphs.runs_once);
  const bool create = grad_enabled();
  std::vector<Edge> ends;
  std::vector<int> targets;
  // Where nobody differentiates further, what leads to the inputs is of no interest.
  const auto take = [&](Given which) {
    const Tensor t = as_it_was(which);
    const int target = graphs.target(which);
    if (create || target == kNone) return t;
    Tensor leaf = without_history(t);
    set_requires_grad(leaf, true);
    ends.push_back(edge_of(leaf));
    targets.push_back(target);
    return leaf;
  };
  BackwardRequest request;
  std::vector<Tensor> inputs, parameters;
  {
    const GradModeGuard recording(true);
    const ForwardModesOnly own_affair;
    const DrawnAgain numbers(random_);
    const DefaultDType computing(graphs.default_dtype);
    for (size_t i = 0; i < graphs.forward.inputs.size(); ++i)
      inputs.push_back(take({false, static_cast<int>(i)}));
    for (const int i : program_->parameters_) parameters.push_back(take({true, i}));
    const std::vector<Tensor> all = interpret(graphs.forward, graphs.states, inputs, parameters);
    for (size_t k = 0; k < graphs.output_values.size(); ++k) {
      const Tensor& t = all[graphs.output_values[k]];
      if (!grads[k].defined() || !t.requires_grad()) continue;
      request.outputs.push_back(edge_of(t));
      request.gradients.push_back(grads[k]);
    }
  }
  for (size_t i = 0; create && i < graphs.targets.size(); ++i) {
    const Edge& edge = edges[graphs.first_edge(static_cast<int>(i))];
    if (!edge) continue;
    ends.push_back(edge);
    targets.push_back(static_cast<int>(i));
  }
  request.inputs = ends;
  request.retain_graph = request.create_graph = create;
  give_parts(gradients_reaching(request, false), targets, out);
}

// Each way to a target has an edge; where there are more than when the function was captured, the
// last one has what is left.
void CompiledNode::give_parts(const std::vector<ReachingGradients>& found,
                              const std::vector<int>& targets, Tensor* out) const {
  const RecordedGraphs& graphs = program_->graphs();
  std::vector<int> used(graphs.targets.size());
  for (size_t i = 0; i < found.size(); ++i)
    for (const Tensor& g : found[i].parts) {
      const int target = targets[i];
      const int way = std::min(used[target]++, graphs.ways[target] - 1);
      Tensor& sum = out[graphs.first_edge(target) + way];
      sum = sum.defined() ? add(sum, g) : g;
    }
}

// --- programs ------------------------------------------------------------------------------------

std::shared_ptr<RecordedProgram> RecordedProgram::make(RecordedGraphs graphs) {
  return std::shared_ptr<RecordedProgram>(new RecordedProgram(std::move(graphs)));
}

RecordedProgram::RecordedProgram(RecordedGraphs graphs)
    : graphs_(std::move(graphs)), forward_(graphs_.forward, graphs_.default_dtype) {
  parts_.resize(graphs_.backward.size());
  for (const BackwardPass& each : graphs_.backward)
    sums_.push_back(std::make_unique<Runners>(each.sums.graph, graphs_.default_dtype));
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

Runners& RecordedProgram::backward(int at, bool apart) {
  if (!apart) return *sums_[at];
  const std::lock_guard lock(mutex_);
  if (!parts_[at])
    parts_[at] = std::make_unique<Runners>(graphs_.backward[at].parts.graph, graphs_.default_dtype);
  return *parts_[at];
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
