// autograd/program/trace.cpp: runs the engine over what a captured function recorded, with
// stand-ins for the gradients of its results, under the same capture: what is written down is the
// backward.
#include "autograd/program/trace.h"

#include <algorithm>
#include <functional>

#include "autograd/custom_function.h"
#include "autograd/dual_tensor.h"
#include "autograd/engine.h"
#include "autograd/history.h"
#include "autograd/saved_hooks.h"
#include "autograd/uses_program_trace.h"
#include "tensor/program/subgraph.h"
#include "tensor/runtime/interrupt.h"
#include "tensor/runtime/modes.h"

namespace moonlet::program {

namespace {

// Sends stand-ins to the results, so that nobody else holds them: gradients that come from other
// ops are not held either, and are added to in place.
class StartNode final : public TapeNode {
 public:
  StartNode(const std::vector<Edge>& outputs, std::vector<Tensor> gradients, const Tensor& like)
      : gradients_(std::move(gradients)) {
    edges.assign(outputs.begin(), outputs.end());
    set_output(0, like);
    number();
  }
  const char* name() const override { return "CompiledResults"; }
  void apply(Tensor*, Tensor* out, Wanted&) override {
    for (size_t i = 0; i < gradients_.size(); ++i) out[i] = std::move(gradients_[i]);
  }

 private:
  std::vector<Tensor> gradients_;
};

class RefusesUnpacking {
 public:
  explicit RefusesUnpacking(bool on) : before_(std::exchange(refuses_unpacking, on)) {}
  ~RefusesUnpacking() { refuses_unpacking = before_; }
  RefusesUnpacking(const RefusesUnpacking&) = delete;
  RefusesUnpacking& operator=(const RefusesUnpacking&) = delete;

 private:
  const bool before_;
};

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

// One backward pass as it was captured.
struct CapturedBackward {
  size_t first_node = 0;
  std::vector<ValueId> gradients;  // that it starts with
  std::vector<ValueId> found;      // by target; kNone where nothing came
};

class Tracer {
 public:
  Tracer(Capture& capture, std::span<const Tensor> results, bool through_hooks)
      : run_(capture, results), through_hooks_(through_hooks) {}

  RecordedGraphs trace();

 private:
  void find_targets();
  void check_nodes();
  void check_node(TapeNode& node);
  void trace_passes();
  CapturedBackward trace_pass(const std::vector<int>& from);
  void check_pass(const CapturedBackward& pass) const;
  std::string reader_of(ValueId id) const;
  void make_forward();
  void add_backward(const std::vector<int>& from, const CapturedBackward& pass);
  BackwardGraph::Input input_for(ValueId id);
  int keep(ValueId id);
  void note_changes();

  CapturedRun run_;
  const bool through_hooks_;
  RecordedGraphs out_;
  std::vector<Tensor> made_;         // while they were captured
  std::vector<ValueId> outputs_;     // of the forward graph
  std::vector<Edge> starts_, ends_;  // by the node's output; by target
};

void Tracer::find_targets() {
  for (const Given each : run_.given()) {
    const Tensor& t = run_.tensor_of(each);
    if (!t.requires_grad()) continue;
    const Edge edge = edge_of(t);
    const auto same = [&](const Edge& other) {
      return other.node.get() == edge.node.get() && other.index == edge.index;
    };
    const auto found = std::find_if(ends_.begin(), ends_.end(), same);
    out_.target_of.emplace_back(each, static_cast<int>(found - ends_.begin()));
    if (found != ends_.end()) continue;
    out_.targets.push_back(each);
    ends_.push_back(edge);
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
  for (const Edge& edge : ends_) seen.insert(edge.node.get());
  const auto visit = [&](const Edge& edge) {
    if (edge && seen.insert(edge.node.get()).second) open.push_back(edge.node.get());
  };
  for (const Edge& edge : starts_) visit(edge);
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

CapturedBackward Tracer::trace_pass(const std::vector<int>& from) {
  CapturedBackward pass;
  std::vector<Edge> starts;
  std::vector<Tensor> gradients;
  for (const int k : from) {
    const auto made = std::find(out_.made.begin(), out_.made.end(), k) - out_.made.begin();
    const Tensor& t = made_[made];
    starts.push_back(starts_[k]);
    const NoModes own_affair;
    gradients.push_back(
        empty_strided(t.sizes(), dense_strides(t.sizes(), t.strides()), options_of(t), "backward"));
    fill_(gradients.back(), 1.0);
  }
  Tensor one;
  {
    const NoModes own_affair;
    one = ones({}, options_of(gradients[0]));
  }
  pass.first_node = run_.graph().nodes.size();
  for (const Tensor& g : gradients) {
    run_.capture.add_input(g);
    pass.gradients.push_back(run_.graph().inputs.back());
  }
  BackwardRequest request;
  request.outputs = {{NodeRef(new StartNode(starts, std::move(gradients), one)), 0}};
  request.gradients = {one};
  request.inputs = ends_;
  request.retain_graph = request.stop_at_inputs = true;
  const CaptureScope capturing(run_.capture);
  const RefusesUnpacking refuses(!through_hooks_);
  const std::vector<Tensor> found = gradients_of_inputs(request);
  for (const Tensor& g : found)
    pass.found.push_back(g.defined() ? run_.capture.value_of(g) : kNone);
  return pass;
}

// " (mul)" for the first op that uses the memory of a value.
std::string Tracer::reader_of(ValueId id) const {
  for (const Node& node : run_.graph().nodes) {
    bool reads = false;
    each_argument(
        node, [&](ValueId a) { reads = reads || run_.value(a).buffer == run_.value(id).buffer; });
    if (reads) return text(" (", node.op->name, ")");
  }
  return "";
}

void Tracer::check_pass(const CapturedBackward& pass) const {
  if (const auto& reason = run_.capture.stopped()) refuse("its backward ", *reason);
  if (run_.graph().parameters.size() > run_.parameters)
    refuse("its backward reads a tensor that no op made",
           reader_of(run_.graph().parameters.back().value));
  for (size_t i = pass.first_node; i < run_.graph().nodes.size(); ++i) {
    const Node& node = run_.graph().nodes[i];
    if (node.op->random) refuse("its backward draws random numbers (", node.op->name, ")");
    each_written(node, [&](ValueId id) {
      if (run_.value(id).buffer < run_.buffers)
        refuse("its backward changes a tensor of the forward pass in place (", node.op->name, ")");
    });
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

void Tracer::add_backward(const std::vector<int>& from, const CapturedBackward& pass) {
  BackwardGraph part;
  part.from = from;
  std::vector<ValueId> outputs, inputs = pass.gradients;
  for (size_t i = 0; i < pass.found.size(); ++i) {
    if (pass.found[i] == kNone) continue;
    outputs.push_back(pass.found[i]);
    part.targets.push_back(static_cast<int>(i));
  }
  const Graph& graph = run_.graph();
  const std::vector<int32_t> nodes =
      needed_nodes(graph, pass.first_node, graph.nodes.size(), outputs, false);
  for (const int k : from) part.inputs.emplace_back().index = k;
  for (const ValueId id : free_values(graph, nodes, outputs)) {
    if (std::find(inputs.begin(), inputs.end(), id) != inputs.end()) continue;
    inputs.push_back(id);
    part.inputs.push_back(input_for(id));
  }
  for (const int32_t i : nodes)
    each_written(graph.nodes[i], [&](ValueId id) {
      for (size_t k = 0; k < from.size(); ++k)
        if (graph.values[inputs[k]].buffer == graph.values[id].buffer)
          part.inputs[k].written = true;
    });
  part.graph = subgraph(graph, nodes, inputs, outputs, true);
  out_.backward.push_back(std::move(part));
}

// One pass from all results, and one from each where there are a few: a gradient that is missing
// is not the same as one of zeros.
void Tracer::trace_passes() {
  constexpr int kMostOutputs = 4;
  std::vector<std::vector<int>> all(1);
  for (int k = 0; k < out_.output_count; ++k) all[0].push_back(k);
  if (out_.output_count > 1 && out_.output_count <= kMostOutputs)
    for (int k = 0; k < out_.output_count; ++k) all.push_back({k});
  for (const std::vector<int>& from : all) {
    const CapturedBackward pass = trace_pass(from);
    check_pass(pass);
    add_backward(from, pass);
  }
}

void Tracer::make_forward() {
  const Graph& graph = run_.graph();
  const std::vector<int32_t> nodes = needed_nodes(graph, 0, run_.nodes, outputs_, true);
  const std::vector<ValueId> inputs(graph.inputs.begin(),
                                    graph.inputs.begin() + static_cast<int64_t>(run_.inputs));
  out_.forward = subgraph(graph, nodes, inputs, outputs_, false);
  for (const int32_t i : nodes) {
    out_.states.push_back(run_.capture.tape_state(static_cast<size_t>(i)));
    out_.is_random = out_.is_random || graph.nodes[i].op->random;
    if (graph.nodes[i].numbers != kNone) out_.runs_once = "its numbers are others at each run";
  }
  for (size_t i = 0; i < run_.parameters; ++i)
    out_.parameters.push_back(graph.parameters[i].tensor);
}

RecordedGraphs Tracer::trace() {
  made_ = sort_results(run_, out_);
  for (const Tensor& t : made_) outputs_.push_back(run_.capture.value_of(t));
  if (const auto& reason = run_.capture.stopped()) refuse(*reason);
  run_.count();
  note_changes();
  find_targets();
  for (const Tensor& t : made_)
    if (t.requires_grad()) starts_.push_back(edge_of(t));
  check_nodes();
  if (out_.output_count > 0 && !out_.is_freed) trace_passes();
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
