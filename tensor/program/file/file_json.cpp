// tensor/program/file/file_json.cpp: a program as JSON text, and back.
#include "tensor/core/error.h"
#include "tensor/program/file/file_arguments.h"
#include "tensor/program/file/graph_json.h"
#include "tensor/program/file/program_file.h"

namespace moonlet::program {

namespace {

using io::JsonTree;
using io::JsonWriter;

// Version 2 adds state and gradients; a program without these is written as version 1, for readers
// that know no other.
constexpr int64_t kPlainVersion = 1, kVersion = 2;

bool is_plain(const ProgramData& data) {
  bool plain = data.gradients.empty();
  for (const Node& node : data.graph.nodes)
    each_written(node, [&](ValueId id) {
      const BufferId buffer = data.graph.values[id].buffer;
      plain = plain && data.graph.buffers[buffer].kind == Buffer::Kind::Internal;
    });
  return plain;
}

// --- writing -------------------------------------------------------------------------------------

class ProgramWriter {
 public:
  ProgramWriter(const ProgramData& data, const std::vector<StoredParameter>& stored)
      : data_(data), graph_(data.graph), stored_(stored) {}

  std::string text() {
    out_.begin_object();
    out_.key("version"), out_.integer(is_plain(data_) ? kPlainVersion : kVersion);
    out_.key("default_dtype"), out_.string(name(data_.default_dtype));
    write_graph(out_, graph_);
    write_ends();
    write_dynamic();
    out_.key("notes"), out_.begin_object();
    for (const auto& [key, value] : data_.notes) out_.key(key), out_.string(value);
    out_.end_object();
    out_.end_object();
    return out_.take();
  }

 private:
  void write_ends() {
    write_strings(out_, "input_names", data_.input_names);
    write_strings(out_, "output_names", data_.output_names);
    out_.key("parameters"), out_.begin_array();
    for (size_t i = 0; i < graph_.parameters.size(); ++i) {
      const Parameter& p = graph_.parameters[i];
      out_.begin_array(), out_.string(p.name), out_.integer(p.value);
      out_.string(stored_[i].key), out_.boolean(stored_[i].raw), out_.end_array();
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
  JsonWriter out_;
};

// --- reading -------------------------------------------------------------------------------------

class ProgramReader {
 public:
  ProgramReader(const JsonTree& root, const io::NamedTensors& tensors)
      : root_(root), tensors_(tensors) {}

  ProgramData read() {
    const int64_t version = root_.at("version").integer("version");
    check(version >= kPlainVersion && version <= kVersion, "it has version ", version,
          " of the format, this reads versions ", kPlainVersion, " to ", kVersion);
    data_.default_dtype = dtype_from_name(root_.at("default_dtype").string("default_dtype"));
    check(is_floating(data_.default_dtype), "default_dtype: ", data_.default_dtype,
          " is not floating");
    graph_ = read_graph(root_);
    data_.input_names = read_strings(root_, "input_names");
    data_.output_names = read_strings(root_, "output_names");
    check(data_.input_names.size() == graph_.inputs.size() &&
              data_.output_names.size() == graph_.outputs.size(),
          "inputs and outputs have not as many names");
    read_parameters();
    read_dynamic(root_.at("dynamic"));
    for (const auto& [key, value] : root_.at("notes").object("notes"))
      data_.notes.emplace(key, value.string("notes"));
    return std::move(data_);
  }

 private:
  void read_parameters() {
    for (const JsonTree& each : root_.at("parameters").list("parameters")) {
      const JsonTree::List& parts = each.list("parameters", 4);
      Parameter p{read_index(parts[1], "parameters"), {}, parts[0].string("parameters")};
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

  void read_dynamic(const JsonTree& tree) {
    Dynamic& dynamic = data_.dynamic;
    for (const JsonTree& each : tree.at("example").list("example"))
      dynamic.example.push_back(each.integer("example", 0, kMostId));
    for (const JsonTree& each : tree.at("sizes").list("sizes")) {
      const JsonTree::List& at = each.list("sizes", 3);
      dynamic.sizes.push_back(
          {read_index(at[0], "sizes"), read_index(at[1], "sizes"), read_index(at[2], "sizes")});
    }
    for (const JsonTree& each : tree.at("arguments").list("arguments")) {
      const JsonTree::List& at = each.list("arguments", 5);
      DynamicArgument argument{read_id(at[0], "arguments"),
                               read_index(at[1], "arguments"),
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
};

}  // namespace

std::string to_json(const ProgramData& data, const std::vector<StoredParameter>& stored) {
  return ProgramWriter(data, stored).text();
}

ProgramData from_json(const std::string& json, const io::NamedTensors& tensors,
                      io::ReadBudget& budget) {
  const JsonTree root = JsonTree::read(json, "the graph", &budget);
  return ProgramReader(root, tensors).read();
}

}  // namespace moonlet::program
