// autograd/program/trace_again.cpp: runs a captured function again under a capture of its own, and
// finds in the first graphs what backward passes read of it.
#include "autograd/program/trace_again.h"

#include <algorithm>

#include "autograd/program/interpret.h"
#include "autograd/program/pass_tracer.h"
#include "tensor/program/same.h"
#include "tensor/runtime/interrupt.h"
#include "tensor/runtime/modes.h"

namespace moonlet::program {

namespace {

bool lies_alike(const Value& a, const Value& b) {
  return a.buffer == b.buffer && a.dtype == b.dtype && a.offset == b.offset && a.sizes == b.sizes &&
         a.strides == b.strides;
}

bool same(const BackwardGraph::Input& a, const BackwardGraph::Input& b) {
  return a.kind == b.kind && a.index == b.index && a.written == b.written &&
         a.seen.given == b.seen.given && a.seen.whole == b.seen.whole &&
         a.seen.sizes == b.seen.sizes && a.seen.strides == b.seen.strides &&
         a.seen.offset == b.seen.offset;
}

bool same(const BackwardGraph& a, const BackwardGraph& b) {
  if (a.edges != b.edges || a.inputs.size() != b.inputs.size()) return false;
  for (size_t i = 0; i < a.inputs.size(); ++i)
    if (!same(a.inputs[i], b.inputs[i])) return false;
  Graph x = a.graph, y = b.graph;
  normalize_inputs(x, [](size_t) {});
  normalize_inputs(y, [](size_t) {});
  return program::same(x, y);
}

class SecondTrace {
 public:
  SecondTrace(const RecordedGraphs& graphs, const StandIns& given)
      : graphs_(graphs),
        given_(given),
        all_(run_function()),
        run_(capture_, {}),
        passes_(run_, false) {
    find_ends();
  }
  BackwardPass pass(const PassStart& start);
  // Whether it shows the pass that the captured run has shown.
  bool is_faithful();

 private:
  std::vector<Tensor> run_function();
  void find_ends();
  BackwardGraph graph(const PassStart& start, bool sums, bool& several);
  BackwardGraph::Input input_for(ValueId id);
  Given given_at(int input) const;

  const RecordedGraphs& graphs_;
  const StandIns& given_;
  Capture capture_;
  const std::vector<Tensor> all_;  // by value of the forward graph
  CapturedRun run_;
  PassTracer passes_;
};

std::vector<Tensor> SecondTrace::run_function() {
  for (const Tensor& t : given_.inputs) capture_.add_input(t);
  for (const Tensor& t : given_.parameters) capture_.add_input(t);
  std::vector<Tensor> parameters;
  for (const int i : given_.used) parameters.push_back(given_.parameters[i]);
  const GradModeGuard recording(true);
  const NoModes own_affair;
  const CaptureScope capturing(capture_);
  std::vector<Tensor> all = interpret(graphs_.forward, graphs_.states, given_.inputs, parameters);
  if (const auto& reason = capture_.stopped()) refuse(*reason);
  if (!capture_.graph().parameters.empty()) refuse("it uses other tensors");
  for (size_t id = 0; id < all.size(); ++id) {
    const Value& v = graphs_.forward.values[id];
    const Tensor& t = all[id];
    if (t.defined() && !(t.dtype() == v.dtype && t.sizes() == v.sizes && t.strides() == v.strides))
      refuse("it gives other tensors");
  }
  return all;
}

void SecondTrace::find_ends() {
  if (graphs_.target_of.size() != graphs_.targets.size())
    refuse("several of what it was given are one for the tape");
  for (const int32_t id : graphs_.output_values) {
    passes_.outputs.push_back(all_[id]);
    passes_.starts.push_back(edge_of(all_[id]));
  }
  for (const Given each : graphs_.targets)
    passes_.ends.push_back(
        edge_of(each.is_parameter ? given_.parameters[each.index] : given_.inputs[each.index]));
}

Given SecondTrace::given_at(int input) const {
  const auto inputs = static_cast<int>(given_.inputs.size());
  return input < inputs ? Given{false, input} : Given{true, input - inputs};
}

BackwardGraph::Input SecondTrace::input_for(ValueId id) {
  BackwardGraph::Input input;
  if (run_.buffer_of(id).kind != Buffer::Kind::Internal) {
    input.kind = BackwardGraph::Input::Kind::Given;
    input.seen = run_.seen(id);
    input.seen.given = given_at(input.seen.given.index);
    if (std::find(graphs_.reads.begin(), graphs_.reads.end(), input.seen.given) ==
        graphs_.reads.end())
      refuse("it reads what was not saved");
    return input;
  }
  input.kind = BackwardGraph::Input::Kind::Kept;
  for (const int output : graphs_.kept) {
    const Tensor& t = all_[graphs_.forward.outputs[output]];
    if (capture_.knows(t) && lies_alike(run_.value(capture_.value_of(t)), run_.value(id)))
      return input;
    ++input.index;
  }
  refuse("it reads what was not kept");
}

BackwardGraph SecondTrace::graph(const PassStart& start, bool sums, bool& several) {
  const CapturedBackward pass = passes_.trace(start.from, start.strides, sums);
  several = pass.several;
  for (size_t i = 0; i < pass.found.size(); ++i)
    if (static_cast<int>(pass.found[i].size()) > graphs_.ways[i]) refuse("there are more ways");
  return passes_.graph(
      start.from, pass, [this](int target) { return graphs_.first_edge(target); },
      [this](ValueId id) { return input_for(id); });
}

BackwardPass SecondTrace::pass(const PassStart& start) {
  BackwardPass out;
  out.from = start.from;
  bool several = false, again = false;
  out.sums = graph(start, true, several);
  if (several) out.parts = graph(start, false, again);
  return out;
}

bool SecondTrace::is_faithful() {
  const BackwardPass& first = graphs_.backward.front();
  return same(first.sums, pass({first.from, first.strides()}).sums);
}

}  // namespace

std::vector<Dims> BackwardPass::strides() const {
  std::vector<Dims> out;
  for (size_t i = 0; i < from.size(); ++i)
    out.push_back(sums.graph.values[sums.graph.inputs[i]].strides);
  return out;
}

std::optional<BackwardPass> trace_again(const RecordedGraphs& graphs, const StandIns& given,
                                        const PassStart& start) {
  if (graphs.backward.empty()) return {};
  try {
    SecondTrace trace(graphs, given);
    if (trace.is_faithful()) return trace.pass(start);
  } catch (const Interrupted&) {
    throw;
  } catch (const OutOfMemory&) {
    throw;
  } catch (const Error&) {
    // Refused, or an op does not take what stands in.
  }
  return {};
}

}  // namespace moonlet::program
