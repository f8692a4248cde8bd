// autograd/program/trace.cpp: makes graphs of what a captured function recorded: of its forward
// pass, and of the backward passes that the engine runs under the same capture.
#include "autograd/program/trace.h"

#include <algorithm>

#include "autograd/custom_function.h"
#include "autograd/dual_tensor.h"
#include "autograd/history.h"
#include "autograd/program/pass_tracer.h"
#include "tensor/program/subgraph.h"
#include "tensor/runtime/interrupt.h"

namespace moonlet::program {

namespace {

// Whether what the node saved is freed.
bool is_released(TapeNode& node) {
  TapeNode* const change = change_of_part(node);
  std::vector<Operand> none;
  bool list = false;
  try {
    // No value has that name, and only a node that was released throws.
    static_cast<void>((change ? *change : node).read_saved("", none, list));
  } catch (const Error&) {
    return true;
  }
  return false;
}

class Tracer {
 public:
  Tracer(Capture& capture, std::span<const Tensor> results, bool through_hooks)
      : run_(capture, results), passes_(run_, through_hooks) {}

  RecordedGraphs trace();

 private:
  void find_targets();
  void check_nodes();
  void check_node(TapeNode& node);
  void trace_passes();
  std::vector<int32_t> later_views(std::vector<ValueId>& needed) const;
  void make_forward();
  BackwardGraph backward_graph(const std::vector<int>& from, const CapturedBackward& pass);
  BackwardGraph::Input input_for(ValueId id);
  int keep(ValueId id);
  void note_changes();

  CapturedRun run_;
  PassTracer passes_;
  RecordedGraphs out_;
  SortedResults sorted_;
  std::vector<ValueId> outputs_;  // of the forward graph
};

void Tracer::find_targets() {
  for (const Given each : run_.given()) {
    const Tensor& t = run_.tensor_of(each);
    if (!t.requires_grad()) continue;
    const Edge edge = edge_of(t);
    const auto same = [&](const Edge& other) {
      return other.node.get() == edge.node.get() && other.index == edge.index;
    };
    const auto found = std::find_if(passes_.ends.begin(), passes_.ends.end(), same);
    out_.target_of.emplace_back(each, static_cast<int>(found - passes_.ends.begin()));
    if (found != passes_.ends.end()) continue;
    out_.targets.push_back(each);
    passes_.ends.push_back(edge);
  }
}

void Tracer::check_node(TapeNode& node) {
  if (node.variable().defined()) refuse("its gradients reach a leaf that it makes itself");
  TapeNode* const change = change_of_part(node);
  if (autograd::is_function_node(change ? *change : node))
    refuse("the backward of a custom function, ", (change ? *change : node).name(),
           ", is no op that a program knows");
  if (node.hooks && !node.hooks->empty())
    refuse("a hook, or retain_grad, is set on a tensor inside (", node.name(), ")");
}

// The nodes between the results and what was given.
void Tracer::check_nodes() {
  std::unordered_set<const TapeNode*> seen;
  std::vector<TapeNode*> open;
  for (const Edge& edge : passes_.ends) seen.insert(edge.node.get());
  const auto visit = [&](const Edge& edge) {
    if (edge && seen.insert(edge.node.get()).second) open.push_back(edge.node.get());
  };
  for (const Edge& edge : passes_.starts) visit(edge);
  std::vector<TapeNode*> all;
  while (!open.empty()) {
    TapeNode* const node = open.back();
    open.pop_back();
    all.push_back(node);
    for (const Edge& edge : node->edges) visit(edge);
  }
  out_.is_freed =
      std::any_of(all.begin(), all.end(), [](TapeNode* node) { return is_released(*node); });
  if (out_.is_freed) return;
  for (TapeNode* node : all) check_node(*node);
}

// What is in place must be so for eager code too: memory that is given and has a history keeps it.
void Tracer::note_changes() {
  for (const Given each : run_.given()) {
    const BufferId buffer = run_.value(run_.id_of(each)).buffer;
    if (!run_.is_changed(buffer)) continue;
    for (const Given other : out_.changed)
      if (run_.value(run_.id_of(other)).buffer == buffer && run_.id_of(other) != run_.id_of(each))
        out_.runs_once = "it changes memory that several of its arguments share";
    out_.changed.push_back(each);
    const Tensor& t = run_.tensor_of(each);
    if (!t.requires_grad()) continue;
    if (!is_leaf(t)) refuse("it changes a tensor that requires grad in place");
    out_.runs_once = "it changes a leaf that requires grad in place";
  }
}

// The output of the forward graph that the backward pass reads, by its position among those kept.
int Tracer::keep(ValueId id) {
  const auto output = std::find(outputs_.begin(), outputs_.end(), id) - outputs_.begin();
  if (output == static_cast<int64_t>(outputs_.size())) outputs_.push_back(id);
  const auto at = std::find(out_.kept.begin(), out_.kept.end(), output) - out_.kept.begin();
  if (at == static_cast<int64_t>(out_.kept.size())) out_.kept.push_back(static_cast<int>(output));
  return static_cast<int>(at);
}

BackwardGraph::Input Tracer::input_for(ValueId id) {
  BackwardGraph::Input input;
  if (run_.buffer_of(id).kind == Buffer::Kind::Internal) {
    input.kind = BackwardGraph::Input::Kind::Kept;
    input.index = keep(id);
    return input;
  }
  input.kind = BackwardGraph::Input::Kind::Given;
  input.seen = run_.seen(id);
  const Given given = input.seen.given;
  if (std::find(out_.reads.begin(), out_.reads.end(), given) == out_.reads.end())
    out_.reads.push_back(given);
  return input;
}

BackwardGraph Tracer::backward_graph(const std::vector<int>& from, const CapturedBackward& pass) {
  return passes_.graph(
      from, pass, [this](int target) { return out_.first_edge(target); },
      [this](ValueId id) { return input_for(id); });
}

// One pass from all results, and one from each where there are a few: a gradient that is missing
// is not the same as one of zeros.
void Tracer::trace_passes() {
  constexpr size_t kMostResults = 4;
  std::vector<int> results;
  for (int k = 0; k < out_.output_count; ++k)
    if (std::find(out_.bases.begin(), out_.bases.end(), k) == out_.bases.end())
      results.push_back(k);
  if (results.empty()) return;
  std::vector<std::vector<int>> sets{results};
  if (results.size() > 1 && results.size() <= kMostResults)
    for (const int k : results) sets.push_back({k});
  std::vector<CapturedBackward> sums, parts;
  for (const std::vector<int>& from : sets) {
    sums.push_back(passes_.trace(from, {}, true));
    parts.push_back(sums.back().several ? passes_.trace(from, {}, false) : CapturedBackward());
    for (size_t i = 0; i < parts.back().found.size(); ++i)
      out_.ways[i] = std::max(out_.ways[i], static_cast<int>(parts.back().found[i].size()));
  }
  for (size_t i = 0; i < sets.size(); ++i) {
    BackwardPass& pass = out_.backward.emplace_back();
    pass.from = sets[i];
    pass.sums = backward_graph(sets[i], sums[i]);
    if (sums[i].several) pass.parts = backward_graph(sets[i], parts[i]);
  }
}

// Views of what the forward pass has made that the backward passes have made first.
std::vector<int32_t> Tracer::later_views(std::vector<ValueId>& needed) const {
  std::vector<int32_t> out;
  for (size_t i = run_.graph().nodes.size(); i-- > run_.nodes;) {
    const Node& node = run_.graph().nodes[i];
    bool wanted = false;
    each_result(node, [&](ValueId id) {
      wanted = wanted || std::find(needed.begin(), needed.end(), id) != needed.end();
    });
    if (!wanted || !is_view(node)) continue;
    out.push_back(static_cast<int32_t>(i));
    each_argument(node, [&](ValueId id) { needed.push_back(id); });
  }
  std::reverse(out.begin(), out.end());
  return out;
}

void Tracer::make_forward() {
  const Graph& graph = run_.graph();
  // Views that are results are made again, but have values for a run op by op.
  std::vector<ValueId> needed = outputs_, numbers;
  for (const Tensor& t : sorted_.outputs) needed.push_back(run_.capture.value_of(t));
  const std::vector<int32_t> later = later_views(needed);
  std::vector<int32_t> nodes = needed_nodes(graph, 0, run_.nodes, needed, true);
  nodes.insert(nodes.end(), later.begin(), later.end());
  const std::vector<ValueId> inputs(graph.inputs.begin(),
                                    graph.inputs.begin() + static_cast<int64_t>(run_.inputs));
  out_.forward = subgraph(graph, nodes, inputs, outputs_, false, &numbers);
  for (const Tensor& t : sorted_.outputs)
    out_.output_values.push_back(numbers[run_.capture.value_of(t)]);
  for (const int32_t i : nodes) {
    out_.states.push_back(run_.capture.tape_state(static_cast<size_t>(i)));
    out_.is_random = out_.is_random || graph.nodes[i].op->random;
    if (graph.nodes[i].numbers != kNone) out_.runs_once = "its numbers are others at each run";
  }
  for (size_t i = 0; i < run_.parameters; ++i)
    out_.parameters.push_back(graph.parameters[i].tensor);
}

RecordedGraphs Tracer::trace() {
  sorted_ = sort_results(run_, out_);
  for (const Tensor& t : sorted_.made) outputs_.push_back(run_.capture.value_of(t));
  if (const auto& reason = run_.capture.stopped()) refuse(*reason);
  run_.count();
  note_changes();
  find_targets();
  passes_.outputs = sorted_.outputs;
  for (const Tensor& t : sorted_.outputs) passes_.starts.push_back(edge_of(t));
  out_.ways.assign(out_.targets.size(), 1);
  check_nodes();
  if (!out_.is_freed) trace_passes();
  make_forward();
  return std::move(out_);
}

}  // namespace

void CapturedRun::count() {
  nodes = graph().nodes.size();
  inputs = graph().inputs.size();
  parameters = graph().parameters.size();
  buffers = static_cast<BufferId>(graph().buffers.size());
  given_.clear();
  for (size_t i = 0; i < inputs; ++i) given_.push_back({false, static_cast<int>(i)});
  for (size_t i = 0; i < parameters; ++i) given_.push_back({true, static_cast<int>(i)});
  for (const Node& node : graph().nodes)
    each_written(node, [&](ValueId id) { changed_.insert(value(id).buffer); });
}

Seen CapturedRun::seen(ValueId id) const {
  const Value& v = value(id);
  const auto lies_alike = [&](const Value& other) {
    return other.offset == v.offset && other.sizes == v.sizes && other.strides == v.strides;
  };
  std::optional<Given> found;
  for (const Given each : given_) {
    const Value& other = value(id_of(each));
    if (other.buffer != v.buffer || other.dtype != v.dtype) continue;
    if (lies_alike(other)) return {each, true, {}, {}, 0};
    if (!found) found = each;
  }
  if (!found) refuse("a tensor that was given is looked at as another dtype");
  return {*found, false, v.sizes, v.strides, v.offset - value(id_of(*found)).offset};
}

std::optional<RecordedGraphs> trace_backward(Capture& capture, std::span<const Tensor> outputs,
                                             std::string& reason, bool through_hooks) {
  try {
    return Tracer(capture, outputs, through_hooks).trace();
  } catch (const Interrupted&) {
    throw;
  } catch (const OutOfMemory&) {
    throw;
  } catch (const Refused& refused) {
    reason = refused.what();
  } catch (const Error& error) {
    reason = text("its backward raises an error: ", error.what());
  }
  return {};
}

}  // namespace moonlet::program
