// tensor/program/file/graph_json.cpp: buffers, values and nodes as lists.
#include "tensor/program/file/graph_json.h"

#include <map>

#include "tensor/core/error.h"
#include "tensor/program/file/file_arguments.h"

namespace moonlet::program {

namespace {

using io::JsonTree;
using io::JsonWriter;

constexpr const char* kKinds[] = {"input", "parameter", "internal"};
constexpr const char* kForms[] = {"plain", "inplace", "out"};

template <size_t n>
int index_of(const char* const (&names)[n], const std::string& name, const char* what) {
  for (size_t i = 0; i < n; ++i)
    if (name == names[i]) return static_cast<int>(i);
  fail("'", name, "' is no ", what);
}

// --- writing -------------------------------------------------------------------------------------

class GraphWriter {
 public:
  GraphWriter(JsonWriter& out, const Graph& graph) : out_(out), graph_(graph) {}

  void write() {
    write_strings(out_, "lines", graph_.lines);
    write_ops();
    write_memory();
    out_.key("inputs"), write_integers(out_, graph_.inputs);
    out_.key("outputs"), write_integers(out_, graph_.outputs);
    write_nodes();
  }

 private:
  // Each op once, with its schema.
  void write_ops() {
    out_.key("ops"), out_.begin_array();
    for (const Node& node : graph_.nodes) {
      if (!ops_.emplace(node.op, static_cast<int64_t>(ops_.size())).second) continue;
      out_.begin_array(), out_.string(node.op->name), out_.string(node.op->schema);
      out_.end_array();
    }
    out_.end_array();
  }

  void write_memory() {
    out_.key("buffers"), out_.begin_array();
    for (const Buffer& each : graph_.buffers) {
      out_.begin_array(), out_.string(kKinds[static_cast<int>(each.kind)]);
      out_.string(name(each.device)), out_.integer(each.bytes), out_.end_array();
    }
    out_.end_array();
    out_.key("values"), out_.begin_array();
    for (const Value& each : graph_.values) {
      out_.begin_array(), out_.integer(each.buffer), out_.string(name(each.dtype));
      write_integers(out_, each.sizes), write_integers(out_, each.strides);
      out_.integer(each.offset), out_.end_array();
    }
    out_.end_array();
  }

  void write_nodes() {
    out_.key("nodes"), out_.begin_array();
    for (const Node& node : graph_.nodes) {
      out_.begin_array(), out_.integer(ops_[node.op]);
      out_.string(kForms[static_cast<int>(node.form)]), out_.begin_array();
      for (const Argument& each : node.arguments) write_argument(out_, each);
      out_.end_array(), out_.begin_array();
      for (const Result& each : node.results) {
        if (const auto* one = std::get_if<ValueRef>(&each))
          out_.integer(one->id);
        else
          write_refs(out_, std::get<ValueRefs>(each));
      }
      out_.end_array(), out_.integer(node.line), out_.end_array();
    }
    out_.end_array();
  }

  JsonWriter& out_;
  const Graph& graph_;
  std::map<const RawOp*, int64_t> ops_;
};

// --- reading -------------------------------------------------------------------------------------

class GraphReader {
 public:
  explicit GraphReader(const JsonTree& root) : root_(root) {}

  Graph read() {
    graph_.lines = read_strings(root_, "lines");
    read_ops();
    read_memory();
    graph_.inputs = read_indices(root_, "inputs");
    graph_.outputs = read_indices(root_, "outputs");
    read_nodes();
    return std::move(graph_);
  }

 private:
  void read_ops() {
    for (const JsonTree& each : root_.at("ops").list("ops")) {
      const JsonTree::List& op = each.list("ops", 2);
      const std::string& wanted = op[0].string("ops");
      const RawOp* const found = find_raw_op(wanted);
      if (found == nullptr) fail("it needs the op '", wanted, "', which is not there");
      const std::string& schema = op[1].string("ops");
      check(schema == found->schema, "it needs the op '", wanted, "' as ", schema, ", here it is ",
            found->schema);
      ops_.push_back(found);
    }
  }

  void read_memory() {
    for (const JsonTree& each : root_.at("buffers").list("buffers")) {
      const JsonTree::List& parts = each.list("buffers", 3);
      const int kind = index_of(kKinds, parts[0].string("buffers"), "kind of buffer");
      graph_.buffers.push_back({static_cast<Buffer::Kind>(kind),
                                device_from_name(parts[1].string("buffers")),
                                parts[2].integer("buffers")});
    }
    for (const JsonTree& each : root_.at("values").list("values")) {
      const JsonTree::List& parts = each.list("values", 5);
      graph_.values.push_back({read_index(parts[0], "values"),
                               dtype_from_name(parts[1].string("values")),
                               read_dims(parts[2], "values"), read_dims(parts[3], "values"),
                               parts[4].integer("values")});
    }
  }

  void read_nodes() {
    for (const JsonTree& each : root_.at("nodes").list("nodes")) {
      const JsonTree::List& parts = each.list("nodes", 5);
      Node node;
      node.op = ops_[static_cast<size_t>(
          parts[0].integer("nodes", 0, static_cast<int64_t>(ops_.size()) - 1))];
      node.form = static_cast<OpInfo::Form>(index_of(kForms, parts[1].string("nodes"), "form"));
      for (const JsonTree& argument : parts[2].list("nodes"))
        node.arguments.push_back(read_argument(argument));
      for (const JsonTree& result : parts[3].list("nodes")) {
        if (std::holds_alternative<int64_t>(result.value))
          node.results.emplace_back(ValueRef{read_id(result, "nodes")});
        else
          node.results.emplace_back(read_refs(result, "nodes"));
      }
      node.line = read_id(parts[4], "nodes");
      graph_.nodes.push_back(std::move(node));
    }
  }

  const JsonTree& root_;
  Graph graph_;
  std::vector<const RawOp*> ops_;
};

}  // namespace

void write_graph(JsonWriter& out, const Graph& graph) { GraphWriter(out, graph).write(); }
Graph read_graph(const JsonTree& tree) { return GraphReader(tree).read(); }

void write_strings(JsonWriter& out, const char* key, const std::vector<std::string>& list) {
  out.key(key), out.begin_array();
  for (const std::string& each : list) out.string(each);
  out.end_array();
}

std::vector<std::string> read_strings(const JsonTree& tree, const char* key) {
  std::vector<std::string> out;
  for (const JsonTree& each : tree.at(key).list(key)) out.push_back(each.string(key));
  return out;
}

int32_t read_index(const JsonTree& tree, const char* where) {
  return static_cast<int32_t>(tree.integer(where, 0, kMostId));
}

std::vector<int32_t> read_indices(const JsonTree& tree, const char* key) {
  std::vector<int32_t> out;
  for (const JsonTree& each : tree.at(key).list(key)) out.push_back(read_index(each, key));
  return out;
}

}  // namespace moonlet::program
