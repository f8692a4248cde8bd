// tensor/program/program_text.cpp: what a program consists of, as text and as a picture's source.
#include "tensor/program/program_text.h"

#include <map>
#include <set>

#include "tensor/core/error.h"
#include "tensor/program/apart.h"
#include "tensor/program/describe.h"
#include "tensor/program/dot.h"
#include "tensor/program/same.h"

namespace moonlet::program {

namespace {

// Sizes that vary are "*".
std::string shape_text(const Dims& sizes) {
  std::string out = "(";
  for (int d = 0; d < sizes.size(); ++d) {
    if (d > 0) out += ", ";
    out += sizes[d] < 0 ? std::string("*") : text(sizes[d]);
  }
  return out + (sizes.size() == 1 ? ",)" : ")");
}

void add_ends(std::string& out, const char* what, const std::vector<Program::Description>& ends) {
  for (size_t i = 0; i < ends.size(); ++i) {
    out += text(what, " ", i + 1);
    if (!ends[i].name.empty()) out += text(" '", ends[i].name, "'");
    out += text(": ", ends[i].dtype, " ", shape_text(ends[i].sizes));
    if (!ends[i].device.is_cpu()) out += text(" on ", ends[i].device);
    out += '\n';
  }
}

}  // namespace

std::vector<std::string> ops_of(const Graph& graph) {
  std::set<std::string> names;
  for (const Node& node : graph.nodes) names.insert(node.op->name);
  return {names.begin(), names.end()};
}

std::string dot_of(const ProgramData& data) {
  return to_dot(data.graph, data.input_names, data.output_names);
}

std::string description_of(const Program& program, const Plan& plan) {
  const Graph& graph = plan.graph();
  std::string out;
  add_ends(out, "input", program.inputs());
  add_ends(out, "output", program.outputs());
  int64_t bytes = 0, state_bytes = 0, states = 0;
  for (const Parameter& p : graph.parameters) {
    const BufferId buffer = graph.values[p.value].buffer;
    const bool state = is_written(graph, buffer);
    (state ? state_bytes : bytes) += graph.buffers[buffer].bytes;
    states += state;
  }
  const auto count = static_cast<int64_t>(graph.parameters.size());
  out += text("parameters: ", count - states, ", ", bytes, " bytes\n");
  if (states > 0) out += text("state: ", states, ", ", state_bytes, " bytes\n");
  if (!program.data().gradients.empty()) out += "gradients: with a backward pass\n";
  out += text("nodes: ", graph.nodes.size(), ", of which ", plan.steps().size(), " run\n");
  out += text("memory of a run: ", plan.arena_bytes(), " bytes\n");
  const TotalCost cost = cost_of(graph);
  out += text("work of a run: ", flops_text(cost.flops));
  if (cost.unknown > 0) out += text(", and that of ", cost.unknown, " ops that is not known");
  out += text("; ", bytes_text(cost.bytes_read), " read, ", bytes_text(cost.bytes_written),
              " written by ops\n");
  std::map<std::string, int64_t> counts;
  for (const Node& node : graph.nodes) ++counts[node.op->name];
  out += "ops:";
  for (const auto& [name, count] : counts)
    out += count == 1 ? text(" ", name) : text(" ", name, " x", count);
  out += '\n';
  for (const std::string& each : fused_of(plan)) out += text("fused: ", each, "\n");
  for (const std::string& each : apart_of(plan)) out += text("not fused: ", each, "\n");
  return out;
}

}  // namespace moonlet::program
