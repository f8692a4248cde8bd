// autograd/program/pass_tracer.cpp: runs the engine over what a captured function recorded, and
// makes a graph of the ops that it calls.
#include "autograd/program/pass_tracer.h"

#include <algorithm>

#include "autograd/saved_hooks.h"
#include "autograd/uses_program_pass_tracer.h"
#include "tensor/core/layout.h"
#include "tensor/program/subgraph.h"
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

}  // namespace

Tensor filled(const Dims& sizes, const Dims& strides, Options options, double number) {
  Tensor out = empty_strided(sizes, strides, options, "backward");
  // Elements may share memory.
  const auto count =
      static_cast<int64_t>(out.storage().bytes() / size_of(options.dtype)) - out.offset();
  Tensor all = alias(out, {count}, {1}, out.offset());
  fill_(all, number);
  return out;
}

std::vector<Tensor> PassTracer::stand_ins(const std::vector<int>& from,
                                          const std::vector<Dims>& strides) const {
  const NoModes own_affair;
  std::vector<Tensor> out;
  for (size_t i = 0; i < from.size(); ++i) {
    const Tensor& t = outputs[from[i]];
    const Dims lies = strides.empty() ? dense_strides(t.sizes(), t.strides()) : strides[i];
    out.push_back(filled(t.sizes(), lies, options_of(t), 1));
  }
  return out;
}

CapturedBackward PassTracer::trace(const std::vector<int>& from, const std::vector<Dims>& strides,
                                   bool sums) {
  CapturedBackward pass;
  std::vector<Edge> at;
  for (const int k : from) at.push_back(starts[k]);
  std::vector<Tensor> gradients = stand_ins(from, strides);
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
  request.outputs = {{NodeRef(new StartNode(at, std::move(gradients), one)), 0}};
  request.gradients = {one};
  request.inputs = ends;
  request.retain_graph = true;
  const CaptureScope capturing(run_.capture);
  const RefusesUnpacking refuses(!through_hooks_);
  for (const ReachingGradients& each : gradients_reaching(request, sums)) {
    std::vector<ValueId>& found = pass.found.emplace_back();
    for (const Tensor& g : each.parts) found.push_back(run_.capture.value_of(g));
    if (each.sum.defined()) found.push_back(run_.capture.value_of(each.sum));
    pass.several = pass.several || each.ways > 1;
  }
  pass.last_node = run_.graph().nodes.size();
  check_pass(pass);
  return pass;
}

// " (mul)" for the first op that uses the memory of a value.
std::string PassTracer::reader_of(ValueId id) const {
  for (const Node& node : run_.graph().nodes) {
    bool reads = false;
    each_argument(
        node, [&](ValueId a) { reads = reads || run_.value(a).buffer == run_.value(id).buffer; });
    if (reads) return text(" (", node.op->name, ")");
  }
  return "";
}

void PassTracer::check_pass(const CapturedBackward& pass) const {
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

BackwardGraph PassTracer::graph(
    const std::vector<int>& from, const CapturedBackward& pass,
    const std::function<int(int)>& first_edge,
    const std::function<BackwardGraph::Input(ValueId)>& input_for) const {
  BackwardGraph out;
  const Graph& graph = run_.graph();
  std::vector<ValueId> results, inputs = pass.gradients;
  for (size_t i = 0; i < pass.found.size(); ++i) {
    int edge = first_edge(static_cast<int>(i));
    for (const ValueId id : pass.found[i]) {
      results.push_back(id);
      out.edges.push_back(edge++);
    }
  }
  const std::vector<int32_t> nodes =
      needed_nodes(graph, pass.first_node, pass.last_node, results, false);
  for (const int k : from) out.inputs.emplace_back().index = k;
  for (const ValueId id : free_values(graph, nodes, results)) {
    if (std::find(inputs.begin(), inputs.end(), id) != inputs.end()) continue;
    inputs.push_back(id);
    out.inputs.push_back(input_for(id));
  }
  for (const int32_t i : nodes)
    each_written(graph.nodes[i], [&](ValueId id) {
      for (size_t k = 0; k < from.size(); ++k)
        if (run_.value(inputs[k]).buffer == run_.value(id).buffer) out.inputs[k].written = true;
    });
  out.graph = subgraph(graph, nodes, inputs, results, true);
  return out;
}

}  // namespace moonlet::program
