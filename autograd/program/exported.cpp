// autograd/program/exported.cpp: a captured run becomes a graph and a text.
#include "autograd/program/exported.h"

#include <algorithm>

#include "autograd/program/gradients_json.h"
#include "autograd/uses_program_exported.h"
#include "tensor/core/error.h"

namespace moonlet::program {

namespace {

// Its parameters are all that the function used, in their order in the graph, where those come last
// that the forward pass has no use for.
void take_parameters(RecordedGraphs& graphs, const Graph& captured) {
  Graph& graph = graphs.forward;
  std::vector<int> position;
  for (size_t i = 0; i < graphs.parameters.size(); ++i) {
    const Tensor& t = graphs.parameters[i];
    const auto found = std::find_if(graph.parameters.begin(), graph.parameters.end(),
                                    [&](const Parameter& p) { return p.tensor.is_same(t); });
    position.push_back(static_cast<int>(found - graph.parameters.begin()));
    if (found != graph.parameters.end()) continue;
    const auto buffer = static_cast<BufferId>(graph.buffers.size());
    graph.buffers.push_back(
        {Buffer::Kind::Parameter, t.device(), static_cast<int64_t>(t.storage().bytes())});
    const auto id = static_cast<ValueId>(graph.values.size());
    graph.values.push_back({buffer, t.dtype(), t.sizes(), t.strides(), t.offset()});
    graph.parameters.push_back({id, t, captured.parameters[i].name});
  }
  const auto renumber = [&](Given& given) {
    if (given.is_parameter) given.index = position[given.index];
  };
  for (auto* list : {&graphs.reads, &graphs.targets, &graphs.changed})
    for (Given& each : *list) renumber(each);
  for (auto& [given, target] : graphs.target_of) renumber(given);
  for (BackwardPass& pass : graphs.backward)
    for (BackwardGraph* each : {&pass.sums, &pass.parts})
      for (BackwardGraph::Input& input : each->inputs) renumber(input.seen.given);
  graphs.parameters.clear();
  for (const Parameter& p : graph.parameters) graphs.parameters.push_back(p.tensor);
}

void check_results(const RecordedGraphs& graphs) {
  for (size_t i = 0; i < graphs.results.size(); ++i) {
    const FunctionResult& each = graphs.results[i];
    check(each.kind == FunctionResult::Kind::Made && each.made == static_cast<int>(i),
          "export: result ", i + 1, " is no tensor of its own");
  }
  check(graphs.bases.empty(), "export: a result is a view");
  check(!graphs.is_freed, "export: gradients: the function calls backward itself");
  check(graphs.output_count > 0 && !graphs.targets.empty(),
        "export: gradients: no result depends on a parameter, or an input, that requires grad");
}

}  // namespace

std::vector<Tensor> results_apart(Capture& capture, std::span<const Tensor> results) {
  std::vector<Tensor> out;
  for (const Tensor& t : results) {
    const Graph& graph = capture.graph();
    const ValueId id = capture.value_of(t);
    const Buffer::Kind kind = capture.graph().buffers[graph.values[id].buffer].kind;
    const bool shared = std::any_of(out.begin(), out.end(), [&](const Tensor& other) {
      return &other.storage() == &t.storage();
    });
    out.push_back(shared || kind != Buffer::Kind::Internal ? clone(t) : t);
  }
  return out;
}

Exported export_gradients(Capture& capture, std::span<const Tensor> results) {
  std::string reason;
  const size_t parameters = capture.graph().parameters.size();
  std::optional<RecordedGraphs> graphs = trace_backward(capture, results, reason);
  check(graphs.has_value(), "export: gradients: ", reason);
  check(graphs->parameters.size() == parameters,
        "export: gradients: the backward pass uses a tensor that the function does not");
  check_results(*graphs);
  take_parameters(*graphs, capture.graph());
  Exported out;
  out.gradients = gradients_to_json(*graphs);
  out.graph = std::move(graphs->forward);
  out.graph.outputs.resize(graphs->results.size());
  return out;
}

std::shared_ptr<RecordedProgram> program_with_gradients(const ProgramData& data,
                                                        std::vector<Tensor> parameters) {
  return RecordedProgram::make(gradients_from_json(data, std::move(parameters)));
}

std::vector<bool> parameters_with_gradients(const RecordedGraphs& graphs) {
  std::vector<bool> out(graphs.parameters.size());
  for (const auto& [given, target] : graphs.target_of)
    if (given.is_parameter) out[given.index] = true;
  return out;
}

}  // namespace moonlet::program
