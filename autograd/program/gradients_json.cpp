// autograd/program/gradients_json.cpp: each list that a backward pass needs, and what it must hold.
#include "autograd/program/gradients_json.h"

#include <algorithm>

#include "tensor/core/error.h"
#include "tensor/io/read_budget.h"
#include "tensor/program/file/file_arguments.h"
#include "tensor/program/file/graph_json.h"
#include "tensor/program/same.h"
#include "tensor/program/shapes/check_graph.h"

namespace moonlet::program {

namespace {

using io::JsonTree;
using io::JsonWriter;
using InputKind = BackwardGraph::Input::Kind;

constexpr int64_t kVersion = 1;
constexpr const char* kInputKinds[] = {"gradient", "kept", "given"};
// More edges than any function has: each result's gradient may come to a target along some.
constexpr int64_t kMostWays = 1 << 16;

// --- writing -------------------------------------------------------------------------------------

void write_given(JsonWriter& out, Given given) {
  out.boolean(given.is_parameter), out.integer(given.index);
}

// 'g' or 'n' for the grad mode, then a digit for each tensor.
std::string text_of(const TapeState& state) {
  std::string out = state.grad_mode ? "g" : "n";
  for (const bool each : state.required) out += each ? '1' : '0';
  return out;
}

void write_backward(JsonWriter& out, const BackwardGraph& backward) {
  out.begin_object();
  out.key("graph"), out.begin_object(), write_graph(out, backward.graph), out.end_object();
  out.key("inputs"), out.begin_array();
  for (const BackwardGraph::Input& input : backward.inputs) {
    out.begin_array(), out.string(kInputKinds[static_cast<int>(input.kind)]);
    if (input.kind == InputKind::Given) {
      const Seen& seen = input.seen;
      write_given(out, seen.given), out.boolean(seen.whole), write_integers(out, seen.sizes);
      write_integers(out, seen.strides), out.integer(seen.offset);
    } else {
      out.integer(input.index);
    }
    out.end_array();
  }
  out.end_array();
  out.key("edges"), write_integers(out, backward.edges);
  out.end_object();
}

void write_targets(JsonWriter& out, const RecordedGraphs& graphs) {
  out.key("targets"), out.begin_array();
  for (const Given each : graphs.targets)
    out.begin_array(), write_given(out, each), out.end_array();
  out.end_array();
  out.key("ways"), write_integers(out, graphs.ways);
  out.key("target_of"), out.begin_array();
  for (const auto& [given, target] : graphs.target_of)
    out.begin_array(), write_given(out, given), out.integer(target), out.end_array();
  out.end_array();
}

// --- reading -------------------------------------------------------------------------------------

class Reader {
 public:
  Reader(const JsonTree& root, const ProgramData& data, std::vector<Tensor> parameters)
      : root_(root), data_(data) {
    out_.parameters = std::move(parameters);
  }

  RecordedGraphs read() {
    const int64_t version = root_.at("version").integer("version");
    check(version == kVersion, "it has version ", version, ", this reads version ", kVersion);
    out_.default_dtype = data_.default_dtype;
    read_forward();
    read_results();
    read_states();
    read_targets();
    out_.runs_once = root_.at("runs_once").string("runs_once");
    for (const JsonTree& each : root_.at("backward").list("backward")) read_pass(each);
    return std::move(out_);
  }

 private:
  const Value& value(ValueId id) const { return out_.forward.values[id]; }
  ValueId id_of(Given given) const {
    return given.is_parameter ? out_.forward.parameters[given.index].value
                              : out_.forward.inputs[given.index];
  }

  void read_forward() {
    Graph& graph = out_.forward;
    graph = data_.graph;
    check(graph.parameters.size() == out_.parameters.size(), "it has ", graph.parameters.size(),
          " parameters, got ", out_.parameters.size());
    for (size_t i = 0; i < out_.parameters.size(); ++i)
      graph.parameters[i].tensor = out_.parameters[i];
    for (const ValueId id : read_indices(root_, "saved")) graph.outputs.push_back(id);
    check_graph(graph, data_.default_dtype);
    for (const Node& node : graph.nodes) out_.is_random = out_.is_random || node.op->random;
    for (size_t i = 0; i < graph.inputs.size(); ++i) note_changed({false, static_cast<int>(i)});
    for (size_t i = 0; i < graph.parameters.size(); ++i) note_changed({true, static_cast<int>(i)});
    for (const int32_t kept : read_indices(root_, "kept")) {
      check(kept < static_cast<int32_t>(graph.outputs.size()), "kept: there is no output ", kept);
      const BufferId buffer = value(graph.outputs[kept]).buffer;
      check(graph.buffers[buffer].kind == Buffer::Kind::Internal, "kept: output ", kept,
            " is not made by the program");
      out_.kept.push_back(kept);
    }
  }
  void note_changed(Given given) {
    if (is_written(out_.forward, value(id_of(given)).buffer)) out_.changed.push_back(given);
  }

  // All results are made; those with a history are the node's outputs, each once.
  void read_results() {
    const JsonTree::List& list = root_.at("made").list("made", data_.graph.outputs.size());
    for (size_t i = 0; i < list.size(); ++i) {
      FunctionResult& result = out_.results.emplace_back();
      result.made = static_cast<int>(i);
      const ValueId id = data_.graph.outputs[i];
      const int32_t output = read_id(list[i], "made");
      out_.made.push_back(output);
      if (output == kNone) continue;
      check(output == out_.output_count, "made: output ", output, " is not the next");
      check(out_.forward.buffers[value(id).buffer].kind == Buffer::Kind::Internal, "result ", i + 1,
            " is not made by the program");
      check_differentiable(id);
      out_.output_values.push_back(id);
      ++out_.output_count;
    }
    check(out_.output_count > 0, "no result has gradients");
  }
  void check_differentiable(ValueId id) const {
    const DType dtype = value(id).dtype;
    check(is_floating(dtype) || is_complex(dtype), "value ", id, " of ", dtype,
          " cannot have a gradient");
  }

  void read_states() {
    const size_t count = out_.forward.nodes.size();
    for (const JsonTree& each : root_.at("states").list("states", count)) {
      const std::string& text = each.string("states");
      check(!text.empty() && (text[0] == 'g' || text[0] == 'n') &&
                text.find_first_not_of("01", 1) == text.npos,
            "states: '", text, "' is none");
      TapeState& state = out_.states.emplace_back();
      state.grad_mode = text[0] == 'g';
      for (size_t i = 1; i < text.size(); ++i) state.required.push_back(text[i] == '1');
    }
  }

  Given read_given(const JsonTree& is_parameter, const JsonTree& index) const {
    Given out{is_parameter.boolean("given"), read_index(index, "given")};
    const size_t count =
        out.is_parameter ? out_.forward.parameters.size() : out_.forward.inputs.size();
    check(static_cast<size_t>(out.index) < count, "there is no ",
          out.is_parameter ? "parameter " : "input ", out.index);
    return out;
  }

  void read_targets() {
    for (const JsonTree& each : root_.at("targets").list("targets")) {
      const JsonTree::List& parts = each.list("targets", 2);
      const Given given = read_given(parts[0], parts[1]);
      check_differentiable(id_of(given));
      const bool known =
          std::find(out_.targets.begin(), out_.targets.end(), given) != out_.targets.end();
      check(!known, "targets: one comes twice");
      out_.targets.push_back(given);
    }
    for (const JsonTree& each : root_.at("ways").list("ways", out_.targets.size())) {
      const int64_t ways = each.integer("ways", 1, kMostWays);
      const int target = static_cast<int>(out_.ways.size());
      out_.ways.push_back(static_cast<int>(ways));
      edge_targets_.insert(edge_targets_.end(), static_cast<size_t>(ways), target);
      check(edge_targets_.size() <= kMostWays, "ways: there are too many");
    }
    const auto targets = static_cast<int32_t>(out_.targets.size());
    for (const JsonTree& each : root_.at("target_of").list("target_of")) {
      const JsonTree::List& parts = each.list("target_of", 3);
      const Given given = read_given(parts[0], parts[1]);
      const int32_t target = read_index(parts[2], "target_of");
      check(target < targets, "target_of: there is no target ", target);
      check_like(value(id_of(given)), id_of(out_.targets[target]), "what has a target");
      out_.target_of.emplace_back(given, target);
    }
  }

  void read_pass(const JsonTree& tree) {
    BackwardPass& pass = out_.backward.emplace_back();
    for (const int32_t from : read_indices(tree, "from")) {
      check(from < out_.output_count && (pass.from.empty() || pass.from.back() < from),
            "from: output ", from, " is none, or out of order");
      pass.from.push_back(from);
    }
    check(!pass.from.empty(), "from: a pass starts from nothing");
    pass.sums = read_backward(tree.at("sums"), pass.from);
    const JsonTree& parts = tree.at("parts");
    if (!parts.is_null()) pass.parts = read_backward(parts, pass.from);
  }

  BackwardGraph read_backward(const JsonTree& tree, const std::vector<int>& from) {
    BackwardGraph out;
    out.graph = read_graph(tree.at("graph"));
    check_graph(out.graph, data_.default_dtype);
    const JsonTree::List& inputs = tree.at("inputs").list("inputs", out.graph.inputs.size());
    for (size_t i = 0; i < inputs.size(); ++i) {
      const ValueId id = out.graph.inputs[i];
      BackwardGraph::Input input = read_input(inputs[i], from, out.graph.values[id]);
      // A run hands each gradient on once.
      for (const BackwardGraph::Input& other : out.inputs)
        check(input.kind != InputKind::Gradient || other.kind != input.kind ||
                  other.index != input.index,
              "inputs: the gradient of output ", input.index, " comes twice");
      out.inputs.push_back(std::move(input));
      out.inputs.back().written = is_written(out.graph, out.graph.values[id].buffer);
      check(!out.inputs.back().written || out.inputs.back().kind == InputKind::Gradient,
            "a backward pass changes a tensor of the forward pass");
    }
    read_edges(tree, out);
    return out;
  }

  BackwardGraph::Input read_input(const JsonTree& tree, const std::vector<int>& from,
                                  const Value& wanted) {
    const JsonTree::List& parts = tree.list("inputs");
    check(parts.size() >= 2, "inputs: one is cut off");
    const std::string& kind = parts[0].string("inputs");
    BackwardGraph::Input out;
    if (kind == kInputKinds[2]) {
      check(parts.size() == 7, "inputs: one is cut off");
      out.kind = InputKind::Given;
      out.seen.given = read_given(parts[1], parts[2]);
      out.seen.whole = parts[3].boolean("inputs");
      out.seen.sizes = read_dims(parts[4], "inputs");
      out.seen.strides = read_dims(parts[5], "inputs");
      out.seen.offset = parts[6].integer("inputs", -kMostId, kMostId);
      check(out.seen.sizes.size() == out.seen.strides.size(), "inputs: sizes and strides differ");
      const auto known = std::find(out_.reads.begin(), out_.reads.end(), out.seen.given);
      if (known == out_.reads.end()) out_.reads.push_back(out.seen.given);
      return out;
    }
    check(parts.size() == 2, "inputs: one is too long");
    out.index = read_index(parts[1], "inputs");
    if (kind == kInputKinds[0]) {
      check(std::find(from.begin(), from.end(), out.index) != from.end(), "inputs: output ",
            out.index, " has no gradient in this pass");
      check_like(wanted, out_.output_values[out.index], "a gradient");
      return out;
    }
    check(kind == kInputKinds[1], "inputs: '", kind, "' is none");
    check(out.index < static_cast<int>(out_.kept.size()), "inputs: ", out.index, " is not kept");
    out.kind = InputKind::Kept;
    check_like(wanted, out_.forward.outputs[out_.kept[out.index]], "a kept tensor");
    return out;
  }

  // The dtype and sizes of a value of the forward pass.
  void check_like(const Value& given, ValueId id, const char* what) const {
    check(given.dtype == value(id).dtype && given.sizes == value(id).sizes, what, " is ",
          given.dtype, " ", given.sizes, ", that of value ", id, " is ", value(id).dtype, " ",
          value(id).sizes);
  }

  void read_edges(const JsonTree& tree, BackwardGraph& out) {
    const JsonTree::List& edges = tree.at("edges").list("edges", out.graph.outputs.size());
    std::vector<bool> seen(edge_targets_.size());
    for (size_t i = 0; i < edges.size(); ++i) {
      const int32_t edge = read_index(edges[i], "edges");
      check(edge < static_cast<int32_t>(seen.size()) && !seen[edge], "edges: ", edge,
            " is none, or comes twice");
      seen[edge] = true;
      check_like(out.graph.values[out.graph.outputs[i]], id_of(out_.targets[edge_targets_[edge]]),
                 "a gradient");
      out.edges.push_back(edge);
    }
  }

  const JsonTree& root_;
  const ProgramData& data_;
  RecordedGraphs out_;
  std::vector<int> edge_targets_;  // by edge
};

}  // namespace

std::string gradients_to_json(const RecordedGraphs& graphs) {
  JsonWriter out;
  out.begin_object();
  out.key("version"), out.integer(kVersion);
  const std::vector<ValueId>& outputs = graphs.forward.outputs;
  out.key("saved"), write_integers(out, std::span(outputs).subspan(graphs.results.size()));
  out.key("made"), write_integers(out, graphs.made);
  out.key("kept"), write_integers(out, graphs.kept);
  out.key("states"), out.begin_array();
  for (const TapeState& each : graphs.states) out.string(text_of(each));
  out.end_array();
  write_targets(out, graphs);
  out.key("runs_once"), out.string(graphs.runs_once);
  out.key("backward"), out.begin_array();
  for (const BackwardPass& pass : graphs.backward) {
    out.begin_object();
    out.key("from"), write_integers(out, pass.from);
    out.key("sums"), write_backward(out, pass.sums);
    out.key("parts");
    if (pass.parts.graph.outputs.empty())
      out.null();
    else
      write_backward(out, pass.parts);
    out.end_object();
  }
  out.end_array();
  out.end_object();
  return out.take();
}

RecordedGraphs gradients_from_json(const ProgramData& data, std::vector<Tensor> parameters) {
  try {
    io::ReadBudget budget(data.gradients.size(), 0);
    const JsonTree root = JsonTree::read(data.gradients, "the text", &budget);
    return Reader(root, data, std::move(parameters)).read();
  } catch (const OutOfMemory&) {
    throw;
  } catch (const Error& e) {
    fail("the gradients of the program: ", e.what());
  }
}

}  // namespace moonlet::program
