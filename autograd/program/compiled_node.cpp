// autograd/program/compiled_node.cpp: the backward of one run of a captured function: by a plan, or
// by running the function again.
#include "autograd/program/compiled_node.h"

#include <algorithm>

#include "autograd/anomaly.h"
#include "autograd/forward_mode.h"
#include "autograd/history.h"
#include "autograd/program/interpret.h"
#include "autograd/program/pass_tracer.h"
#include "autograd/uses_program_compiled_node.h"
#include "tensor/core/dispatch.h"
#include "tensor/core/layout.h"
#include "tensor/core/plain_copy.h"
#include "tensor/program/captured_call.h"
#include "tensor/program/parts/deferred_call.h"
#include "tensor/runtime/modes.h"

namespace moonlet::program {

namespace {

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

// Dims of one element may have any stride.
bool lies_as(const Dims& sizes, const Dims& a, const Dims& b) {
  for (int d = 0; d < sizes.size(); ++d)
    if (sizes[d] > 1 && a[d] != b[d]) return false;
  return true;
}

}  // namespace

Tensor show(const Seen& seen, const Tensor& given) {
  if (seen.whole) return shallow_copy(given);
  return alias(given, seen.sizes, seen.strides, given.offset() + seen.offset);
}

CompiledNode::CompiledNode(std::shared_ptr<RecordedProgram> program, std::span<const Tensor> inputs)
    : program_(std::move(program)) {
  const RecordedGraphs& graphs = program_->graphs();
  for (size_t i = 0; i < graphs.targets.size(); ++i) {
    const Edge edge = edge_of(program_->given(inputs, graphs.targets[i]));
    for (int way = 0; way < graphs.ways[i]; ++way) edges.push_back(edge);
  }
  if (graphs.is_freed) return;
  if (graphs.is_random) {
    run_deferred();
    random_ = default_generator().state();
  }
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

// Where the gradients that are given begin. Strides that do not count become those that results
// have.
PassStart CompiledNode::start_of(Tensor* grads) const {
  PassStart start;
  for (int i = 0; i < output_count(); ++i) {
    Tensor& g = grads[i];
    if (!g.defined()) continue;
    const Graph& forward = program_->graphs().forward;
    const Value& result = forward.values[program_->graphs().output_values[i]];
    const Dims usual = dense_strides(result.sizes, result.strides);
    if (!(g.strides() == usual) && lies_as(g.sizes(), g.strides(), usual))
      g = alias(g, g.sizes(), usual, g.offset());
    start.from.push_back(i);
    start.strides.push_back(g.strides());
  }
  return start;
}

// The pass from there, made where there is none yet. Null where the function is to run again
// instead. Where it would not run alike: a pass that takes other strides, so that sums may go in
// another order.
ReadyPass* CompiledNode::find_pass(const PassStart& start) {
  if (ReadyPass* const found = program_->find(start)) return found;
  if (execution.vmap == 0 && program_->takes_more()) {
    check_kept();
    if (ReadyPass* const made = program_->add(start, stand_ins())) return made;
  }
  const bool again = program_->runs_alike() && program_->graphs().runs_once.empty();
  return again && is_unchanged() ? nullptr : program_->find_from(start.from);
}

// Whether it can run again with the elements that it had.
bool CompiledNode::is_unchanged() {
  check_kept();
  try {
    for (Saved& each : given_)
      if (!each.unpack(*this).defined()) return false;
  } catch (const Error&) {
    return false;
  }
  return true;
}

// Elements do not matter, but ops refuse some; those that are there still are taken.
Tensor CompiledNode::stand_in(Given which) {
  const RecordedGraphs& graphs = program_->graphs();
  Tensor t;
  try {
    t = given(which).unpack(*this);
  } catch (const Error&) {
    // It was changed since.
  }
  const bool changes =
      std::find(graphs.changed.begin(), graphs.changed.end(), which) != graphs.changed.end();
  if (!t.defined()) {
    const Graph& forward = graphs.forward;
    const Tensor like = which.is_parameter ? graphs.parameters[which.index] : Tensor();
    const Value v = like.defined() ? Value{kNone, like.dtype(), like.sizes(), like.strides(), 0}
                                   : forward.values[forward.inputs[which.index]];
    const Device device = like.defined() ? like.device() : forward.buffers[v.buffer].device;
    t = filled(v.sizes, v.strides, {v.dtype, device}, 0);
  } else if (changes) {
    t = clone_plain(t);
  }
  Tensor leaf = without_history(t);
  if (graphs.target(which) != kNone) set_requires_grad(leaf, true);
  return leaf;
}

StandIns CompiledNode::stand_ins() {
  const RecordedGraphs& graphs = program_->graphs();
  const NoModes own_affair;
  StandIns out;
  for (size_t i = 0; i < graphs.forward.inputs.size(); ++i)
    out.inputs.push_back(stand_in({false, static_cast<int>(i)}));
  for (size_t i = 0; i < graphs.parameters.size(); ++i)
    out.parameters.push_back(stand_in({true, static_cast<int>(i)}));
  return out;
}

void CompiledNode::apply(Tensor* grads, Tensor* out, Wanted& wanted) {
  if (program_->graphs().is_freed) check_kept();
  if (execution.capture != nullptr) stop_capture(name(), "runs compiled code");
  const bool batched = std::any_of(grads, grads + output_count(), [](const Tensor& g) {
    return g.defined() && g.device().is_batched();
  });
  if (derivatives_wanted() || batched) return run_again(grads, out);
  // Op by op it is found where a NaN comes from.
  if (anomaly_mode == Anomaly::DetectNan && program_->graphs().runs_once.empty() && is_unchanged())
    return run_again(grads, out);
  ReadyPass* const pass = find_pass(start_of(grads));
  if (pass == nullptr) return run_again(grads, out);
  run(*pass, grads, out, wanted);
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

void CompiledNode::run(ReadyPass& ready, Tensor* grads, Tensor* out, const Wanted& wanted) {
  const BackwardPass& pass = ready.graphs();
  const bool apart = std::any_of(pass.parts.edges.begin(), pass.parts.edges.end(),
                                 [&](int edge) { return has_gradient_so_far(edges[edge]); });
  const BackwardGraph& graph = apart ? pass.parts : pass.sums;
  std::vector<Tensor> inputs, outputs;
  inputs.reserve(graph.inputs.size());
  for (size_t i = 0; i < graph.inputs.size(); ++i)
    inputs.push_back(input(graph.inputs[i], graph.graph.values[graph.graph.inputs[i]], grads));
  ready.runners(apart).run(inputs, outputs);
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

}  // namespace moonlet::program
