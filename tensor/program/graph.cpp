// tensor/program/graph.cpp: what a node writes, and graphs as text.
#include "tensor/program/graph.h"

#include <sstream>

#include "tensor/core/error.h"

namespace moonlet::program {

namespace {

// Whether argument i of a row is marked as written in its schema: "adam(Tensor[]! x, ...)".
bool is_marked_written(const char* schema, int i) {
  const char* at = schema;
  while (*at != '\0' && *at != '(') ++at;
  int depth = 0;
  bool written = false;
  for (++at; *at != '\0'; ++at) {
    if (*at == '[' || *at == '{') ++depth;
    if (*at == ']' || *at == '}') --depth;
    if (depth == 0 && (*at == ',' || *at == ')')) {
      if (i-- == 0) return written;
      written = false;
      if (*at == ')') return false;
    }
    if (*at == '!') written = true;
  }
  return false;
}

void write_value(std::ostream& out, const BoxedValue& value) {
  std::visit(
      [&]<class T>(const T& v) {
        if constexpr (std::is_same_v<T, std::monostate>)
          out << "nil";
        else if constexpr (std::is_same_v<T, std::string>)
          out << '"' << v << '"';
        else if constexpr (std::is_same_v<T, bool>)
          out << (v ? "true" : "false");
        else if constexpr (std::is_same_v<T, Dims>)
          out << text(v);
        else if constexpr (std::is_same_v<T, std::vector<int64_t>> ||
                           std::is_same_v<T, std::vector<double>>) {
          out << '{';
          for (size_t i = 0; i < v.size(); ++i) out << (i > 0 ? ", " : "") << v[i];
          out << '}';
        } else if constexpr (std::is_same_v<T, MemoryFormat>)
          out << "memory_format " << static_cast<int>(v);
        else if constexpr (std::is_same_v<T, Options>)
          out << text(v.dtype, " ", v.device);
        else if constexpr (std::is_same_v<T, Generator*>)
          out << (v ? "generator" : "nil");
        else if constexpr (std::is_same_v<T, Tensor> || std::is_same_v<T, std::vector<Tensor>>)
          out << "tensor";
        else
          out << text(v);
      },
      value);
}

void write_refs(std::ostream& out, const ValueRefs& refs) {
  out << '{';
  for (size_t i = 0; i < refs.size(); ++i) {
    out << (i > 0 ? ", " : "");
    if (refs[i].id == kNone)
      out << "nil";
    else
      out << '%' << refs[i].id;
  }
  out << '}';
}

void write_argument(std::ostream& out, const Argument& argument) {
  if (const auto* one = std::get_if<ValueRef>(&argument))
    out << '%' << one->id;
  else if (const auto* list = std::get_if<ValueRefs>(&argument))
    write_refs(out, *list);
  else
    write_value(out, std::get<BoxedValue>(argument));
}

void write_type(std::ostream& out, const Graph& graph, ValueId id) {
  const Value& v = graph.values[id];
  out << text(v.dtype, " ", v.sizes);
  if (!is_contiguous(v.sizes, v.strides, MemoryFormat::Contiguous))
    out << text(" strides ", v.strides);
}

void write_node(std::ostream& out, const Graph& graph, const Node& node) {
  const char* separator = "";
  for (const Result& r : node.results) {
    out << separator;
    separator = ", ";
    if (const auto* one = std::get_if<ValueRef>(&r)) {
      if (one->id == kNone)
        out << '_';
      else
        out << '%' << one->id;
    } else {
      write_refs(out, std::get<ValueRefs>(r));
    }
  }
  if (!node.results.empty()) out << " = ";
  out << node.op->name;
  if (node.form == OpInfo::Form::InPlace) out << '_';
  if (node.form == OpInfo::Form::Out) out << "_out";
  out << '(';
  for (size_t i = 0; i < node.arguments.size(); ++i) {
    if (i > 0) out << ", ";
    write_argument(out, node.arguments[i]);
  }
  out << ')';
  separator = " : ";
  each_result(node, [&](ValueId id) {
    out << separator;
    separator = ", ";
    write_type(out, graph, id);
  });
}

}  // namespace

bool is_number(const BoxedValue& value) {
  return std::holds_alternative<double>(value) || std::holds_alternative<int64_t>(value) ||
         std::holds_alternative<bool>(value) || std::holds_alternative<Scalar>(value);
}

bool writes(const Node& node, int i) {
  if (node.form == OpInfo::Form::InPlace && i == 0) return true;
  if (node.form == OpInfo::Form::Out) {
    const int outs = static_cast<int>(node.results.size());
    if (i < outs) return true;
    i -= outs;
  }
  // The plain form of an update works on a copy of its first argument.
  if (i == 0 && node.op->kind == OpKind::Update) return false;
  return is_marked_written(node.op->schema, i);
}

std::string to_string(const Graph& graph) {
  std::ostringstream out;
  const auto declare = [&](const char* what, ValueId id, const std::string& name) {
    out << what << " %" << id << " : ";
    write_type(out, graph, id);
    if (!name.empty()) out << "  # " << name;
    out << '\n';
  };
  for (const ValueId id : graph.inputs) declare("input", id, "");
  for (const Parameter& p : graph.parameters) declare("parameter", p.value, p.name);
  for (const Node& node : graph.nodes) {
    write_node(out, graph, node);
    out << '\n';
  }
  out << "return";
  for (size_t i = 0; i < graph.outputs.size(); ++i)
    out << (i > 0 ? ", %" : " %") << graph.outputs[i];
  out << '\n';
  return out.str();
}

std::string to_string(const Graph& graph, const Node& node) {
  std::ostringstream out;
  write_node(out, graph, node);
  return out.str();
}

std::string type_text(const Graph& graph, ValueId id) {
  std::ostringstream out;
  write_type(out, graph, id);
  return out.str();
}

}  // namespace moonlet::program
