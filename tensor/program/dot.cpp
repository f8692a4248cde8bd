// tensor/program/dot.cpp: boxes, frames and edges.
#include "tensor/program/dot.h"

#include <map>
#include <sstream>
#include <vector>

#include "tensor/program/describe.h"
#include "tensor/program/passes/effects.h"

namespace moonlet::program {

namespace {

// A text between quotes.
std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + '"';
}

std::string node_label(const Graph& graph, const Node& node) {
  std::string out = node.op->name;
  if (node.form == OpInfo::Form::InPlace) out += '_';
  if (node.form == OpInfo::Form::Out) out += "_out";
  const Cost cost = cost_of(graph, node);
  if (cost.flops && *cost.flops > 0) out += "\\n" + flops_text(*cost.flops);
  return out;
}

class Writer {
 public:
  explicit Writer(const Graph& graph)
      : graph_(graph), effects_(graph), names_(graph.values.size()) {}

  std::string write(const std::vector<std::string>& inputs,
                    const std::vector<std::string>& outputs) {
    out_ << "digraph program {\n  node [shape=box];\n";
    for (size_t i = 0; i < graph_.inputs.size(); ++i)
      source(graph_.inputs[i], called(inputs, i, "input"));
    for (const Parameter& each : graph_.parameters)
      source(each.value, each.name.empty() ? "constant" : each.name);
    frames();
    for (int at = 0; at < static_cast<int>(graph_.nodes.size()); ++at)
      each_argument(graph_.nodes[at], [&](ValueId id) { edge(id, at, name(at)); });
    for (size_t i = 0; i < graph_.outputs.size(); ++i) {
      const std::string to = "output" + std::to_string(i + 1);
      out_ << "  " << to << " [shape=ellipse, label=" << quoted(called(outputs, i, "output"))
           << "];\n";
      edge(graph_.outputs[i], static_cast<int>(graph_.nodes.size()), to);
    }
    out_ << "}\n";
    return out_.str();
  }

 private:
  static std::string name(int at) { return "n" + std::to_string(at); }

  static std::string called(const std::vector<std::string>& names, size_t i, const char* what) {
    if (i < names.size() && !names[i].empty()) return names[i];
    return std::string(what) + ' ' + std::to_string(i + 1);
  }

  void source(ValueId id, const std::string& label) {
    names_[id] = "v" + std::to_string(id);
    out_ << "  " << names_[id] << " [shape=ellipse, label=" << quoted(label) << "];\n";
  }

  // Boxes, by the line of the script that they come from.
  void frames() {
    std::map<int32_t, std::vector<int>> by_line;
    for (int at = 0; at < static_cast<int>(graph_.nodes.size()); ++at)
      by_line[graph_.nodes[at].line].push_back(at);
    for (const auto& [line, nodes] : by_line) {
      if (line != kNone)
        out_ << "  subgraph cluster_" << line << " {\n  label=" << quoted(graph_.lines[line])
             << ";\n";
      for (const int at : nodes) {
        const Node& node = graph_.nodes[at];
        out_ << "  " << name(at) << " [label=\"" << node_label(graph_, node) << '"'
             << (is_view(node) ? ", style=dashed" : "") << "];\n";
      }
      if (line != kNone) out_ << "  }\n";
    }
  }

  // From who wrote the memory of the value last, else from who gave the value.
  void edge(ValueId id, int before, const std::string& to) {
    int from = effects_.giver(id);
    for (const Access& each : effects_.of(graph_.values[id].buffer))
      if (each.writes && each.node < before && each.node > from &&
          may_share(graph_, each.value, id))
        from = each.node;
    const std::string name_of_from = from != kNone ? name(from) : names_[id];
    if (name_of_from.empty()) return;  // memory that nobody has written to
    out_ << "  " << name_of_from << " -> " << to << " [label=" << quoted(type_text(graph_, id))
         << "];\n";
  }

  const Graph& graph_;
  const Effects effects_;
  std::vector<std::string> names_;  // of inputs and parameters
  std::ostringstream out_;
};

}  // namespace

std::string to_dot(const Graph& graph, const std::vector<std::string>& input_names,
                   const std::vector<std::string>& output_names) {
  return Writer(graph).write(input_names, output_names);
}

}  // namespace moonlet::program
