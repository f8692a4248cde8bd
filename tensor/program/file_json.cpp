// tensor/program/file_json.cpp: a program as JSON text, and back.
#include <limits>

#include "tensor/core/error.h"
#include "tensor/program/file.h"
#include "tensor/program/file_arguments.h"

namespace moonlet::program {

namespace {

using io::JsonTree;
using io::JsonWriter;

// What reads a version reads no other.
constexpr int64_t kVersion = 1;
constexpr const char* kKinds[] = {"input", "parameter", "internal"};
constexpr const char* kForms[] = {"plain", "inplace", "out"};
constexpr int64_t kMost = std::numeric_limits<int32_t>::max() - 1;

template <size_t n>
int index_of(const char* const (&names)[n], const std::string& name, const char* what) {
  for (size_t i = 0; i < n; ++i)
    if (name == names[i]) return static_cast<int>(i);
  fail("'", name, "' is no ", what);
}

// --- writing -------------------------------------------------------------------------------------

class GraphWriter {
 public:
  GraphWriter(const ProgramData& data, const std::vector<StoredParameter>& stored)
      : data_(data), graph_(data.graph), stored_(stored) {}

  std::string text() {
    out_.begin_object();
    out_.key("version"), out_.integer(kVersion);
    out_.key("default_dtype"), out_.string(name(data_.default_dtype));
    strings("lines", graph_.lines);
    write_ops();
    write_memory();
    write_ends();
    write_nodes();
    write_dynamic();
    out_.key("notes"), out_.begin_object();
    for (const auto& [key, value] : data_.notes) out_.key(key), out_.string(value);
    out_.end_object();
    out_.end_object();
    return out_.take();
  }

 private:
  void strings(const char* key, const std::vector<std::string>& list) {
    out_.key(key), out_.begin_array();
    for (const std::string& each : list) out_.string(each);
    out_.end_array();
  }

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

  void write_ends() {
    out_.key("inputs"), write_integers(out_, graph_.inputs);
    out_.key("outputs"), write_integers(out_, graph_.outputs);
    strings("input_names", data_.input_names);
    strings("output_names", data_.output_names);
    out_.key("parameters"), out_.begin_array();
    for (size_t i = 0; i < graph_.parameters.size(); ++i) {
      const Parameter& p = graph_.parameters[i];
      out_.begin_array(), out_.string(p.name), out_.integer(p.value);
      out_.string(stored_[i].key), out_.boolean(stored_[i].raw), out_.end_array();
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

  void write_dynamic() {
    const Dynamic& dynamic = data_.dynamic;
    out_.key("dynamic"), out_.begin_object();
    out_.key("example"), write_integers(out_, dynamic.example);
    out_.key("sizes"), out_.begin_array();
    for (const DynamicSize& each : dynamic.sizes)
      write_integers(out_, std::vector<int64_t>{each.input, each.dim, each.symbol});
    out_.end_array();
    out_.key("arguments"), out_.begin_array();
    for (const DynamicArgument& each : dynamic.arguments) {
      out_.begin_array();
      for (const int64_t at : {each.node, each.argument, each.element}) out_.integer(at);
      write_integers(out_, each.factors), out_.integer(each.constant), out_.end_array();
    }
    out_.end_array(), out_.end_object();
  }

  const ProgramData& data_;
  const Graph& graph_;
  const std::vector<StoredParameter>& stored_;
  std::map<const RawOp*, int64_t> ops_;
  JsonWriter out_;
};

// --- reading -------------------------------------------------------------------------------------

class GraphReader {
 public:
  GraphReader(const JsonTree& root, const io::NamedTensors& tensors)
      : root_(root), tensors_(tensors) {}

  ProgramData read() {
    const int64_t version = root_.at("version").integer("version");
    check(version == kVersion, "it has version ", version, " of the format, this reads version ",
          kVersion);
    data_.default_dtype = dtype_from_name(root_.at("default_dtype").string("default_dtype"));
    check(is_floating(data_.default_dtype), "default_dtype: ", data_.default_dtype,
          " is not floating");
    graph_.lines = strings("lines");
    read_ops();
    read_memory();
    graph_.inputs = ids("inputs");
    graph_.outputs = ids("outputs");
    data_.input_names = strings("input_names");
    data_.output_names = strings("output_names");
    check(data_.input_names.size() == graph_.inputs.size() &&
              data_.output_names.size() == graph_.outputs.size(),
          "inputs and outputs have not as many names");
    read_parameters();
    read_nodes();
    read_dynamic(root_.at("dynamic"));
    for (const auto& [key, value] : root_.at("notes").object("notes"))
      data_.notes.emplace(key, value.string("notes"));
    return std::move(data_);
  }

 private:
  std::vector<std::string> strings(const char* key) const {
    std::vector<std::string> out;
    for (const JsonTree& each : root_.at(key).list(key)) out.push_back(each.string(key));
    return out;
  }
  std::vector<ValueId> ids(const char* key) const {
    std::vector<ValueId> out;
    for (const JsonTree& each : root_.at(key).list(key)) out.push_back(id(each, key));
    return out;
  }
  static int32_t id(const JsonTree& tree, const char* where) {
    return static_cast<int32_t>(tree.integer(where, 0, kMost));
  }

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
      graph_.values.push_back({id(parts[0], "values"), dtype_from_name(parts[1].string("values")),
                               read_dims(parts[2], "values"), read_dims(parts[3], "values"),
                               parts[4].integer("values")});
    }
  }

  void read_parameters() {
    for (const JsonTree& each : root_.at("parameters").list("parameters")) {
      const JsonTree::List& parts = each.list("parameters", 4);
      Parameter p{id(parts[1], "parameters"), {}, parts[0].string("parameters")};
      const std::string& key = parts[2].string("parameters");
      const auto found = tensors_.find(key);
      if (found == tensors_.end())
        fail("the tensor '", key, "' of parameter '", p.name, "' is missing");
      check(p.value < static_cast<ValueId>(graph_.values.size()), "there is no value ", p.value);
      const Value& value = graph_.values[p.value];
      p.tensor = found->second;
      if (parts[3].boolean("parameters"))
        p.tensor = view_of(p.tensor.storage(), value.sizes, value.strides, value.offset,
                           value.dtype, "parameters");
      graph_.parameters.push_back(std::move(p));
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

  void read_dynamic(const JsonTree& tree) {
    Dynamic& dynamic = data_.dynamic;
    for (const JsonTree& each : tree.at("example").list("example"))
      dynamic.example.push_back(each.integer("example", 0, kMost));
    for (const JsonTree& each : tree.at("sizes").list("sizes")) {
      const JsonTree::List& at = each.list("sizes", 3);
      dynamic.sizes.push_back({id(at[0], "sizes"), id(at[1], "sizes"), id(at[2], "sizes")});
    }
    for (const JsonTree& each : tree.at("arguments").list("arguments")) {
      const JsonTree::List& at = each.list("arguments", 5);
      DynamicArgument argument{read_id(at[0], "arguments"),
                               id(at[1], "arguments"),
                               read_id(at[2], "arguments"),
                               {},
                               at[4].integer("arguments")};
      for (const JsonTree& factor : at[3].list("arguments", dynamic.example.size()))
        argument.factors.push_back(factor.integer("arguments"));
      dynamic.arguments.push_back(std::move(argument));
    }
  }

  const JsonTree& root_;
  const io::NamedTensors& tensors_;
  ProgramData data_;
  Graph& graph_ = data_.graph;
  std::vector<const RawOp*> ops_;
};

}  // namespace

std::string to_json(const ProgramData& data, const std::vector<StoredParameter>& stored) {
  return GraphWriter(data, stored).text();
}

ProgramData from_json(const std::string& json, const io::NamedTensors& tensors,
                      io::ReadBudget& budget) {
  const JsonTree root = JsonTree::read(json, "the graph", &budget);
  return GraphReader(root, tensors).read();
}

}  // namespace moonlet::program
