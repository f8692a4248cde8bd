// tensor/program/program_text.cpp: what a program consists of, as text and as a picture's source.
#include "tensor/program/program_text.h"

#include <map>
#include <set>

#include "tensor/core/error.h"

namespace moonlet::program {

namespace {

std::string type_of(const Value& value) { return text(value.dtype, " ", value.sizes); }

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

// As a string of Graphviz.
std::string quoted(const std::string& words) {
  std::string out = "\"";
  for (const char c : words) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + '"';
}

}  // namespace

std::vector<std::string> ops_of(const Graph& graph) {
  std::set<std::string> names;
  for (const Node& node : graph.nodes) names.insert(node.op->name);
  return {names.begin(), names.end()};
}

std::string dot_of(const ProgramData& data) {
  const Graph& graph = data.graph;
  std::string out = "digraph program {\n  node [shape=box, fontname=\"sans-serif\"];\n";
  std::map<ValueId, std::string> made_by;
  const auto add = [&](const std::string& id, const std::string& label, const char* style) {
    out += text("  ", id, " [label=", quoted(label), style, "];\n");
  };
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    const std::string& name = data.input_names[i];
    made_by[graph.inputs[i]] = text("input", i + 1);
    add(text("input", i + 1),
        text(name.empty() ? text("input ", i + 1) : name, "  ",
             type_of(graph.values[graph.inputs[i]])),
        ", shape=ellipse");
  }
  for (size_t i = 0; i < graph.parameters.size(); ++i) {
    const Parameter& p = graph.parameters[i];
    made_by[p.value] = text("parameter", i + 1);
    add(text("parameter", i + 1),
        text(p.name.empty() ? std::string("constant") : p.name, "  ",
             type_of(graph.values[p.value])),
        ", style=filled, fillcolor=lightgrey");
  }
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    const std::string id = text("node", i + 1);
    std::string label = node.op->name;
    each_result(node, [&](ValueId value) { label += "  " + type_of(graph.values[value]); });
    add(id, label, is_view(node) ? ", style=dashed" : "");
    std::set<std::string> from;
    each_argument(node, [&](ValueId value) { from.insert(made_by[value]); });
    for (const std::string& each : from) out += text("  ", each, " -> ", id, ";\n");
    each_result(node, [&](ValueId value) { made_by[value] = id; });
  }
  for (size_t i = 0; i < graph.outputs.size(); ++i) {
    const std::string& name = data.output_names[i];
    add(text("output", i + 1), name.empty() ? text("output ", i + 1) : name, ", shape=ellipse");
    out += text("  ", made_by[graph.outputs[i]], " -> output", i + 1, ";\n");
  }
  return out + "}\n";
}

std::string description_of(const Program& program, const Plan& plan) {
  const Graph& graph = plan.graph();
  std::string out;
  add_ends(out, "input", program.inputs());
  add_ends(out, "output", program.outputs());
  int64_t bytes = 0;
  for (const Parameter& p : graph.parameters)
    bytes += graph.buffers[graph.values[p.value].buffer].bytes;
  out += text("parameters: ", graph.parameters.size(), ", ", bytes, " bytes\n");
  out += text("nodes: ", graph.nodes.size(), ", of which ", plan.steps().size(), " run\n");
  out += text("memory of a run: ", plan.arena_bytes(), " bytes\n");
  std::map<std::string, int64_t> counts;
  for (const Node& node : graph.nodes) ++counts[node.op->name];
  out += "ops:";
  for (const auto& [name, count] : counts)
    out += count == 1 ? text(" ", name) : text(" ", name, " x", count);
  return out + '\n';
}

}  // namespace moonlet::program
