// tensor/program/file_arguments.cpp: each kind of argument with its tag.
#include "tensor/program/file_arguments.h"

#include <cmath>
#include <limits>
#include <type_traits>

#include "tensor/core/error.h"

namespace moonlet::program {

namespace {

using io::JsonTree;
using io::JsonWriter;

// JSON has neither NaN nor infinities: these are strings.
void write_number(JsonWriter& out, double value) {
  if (std::isnan(value))
    out.string(std::signbit(value) ? "-nan" : "nan");
  else if (std::isinf(value))
    out.string(value > 0 ? "inf" : "-inf");
  else
    out.number(value);
}

double read_number(const JsonTree& tree, const char* where) {
  const auto* word = std::get_if<std::string>(&tree.value);
  if (word == nullptr) return tree.number(where);
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (*word == "inf") return kInfinity;
  if (*word == "-inf") return -kInfinity;
  if (*word == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (*word == "-nan") return -std::numeric_limits<double>::quiet_NaN();
  fail(where, ": a number is expected");
}

void write_scalar(JsonWriter& out, const Scalar& value) {
  switch (value.kind()) {
    case Scalar::Kind::Bool: out.string("b"), out.boolean(value.to_bool()); return;
    case Scalar::Kind::Int: out.string("i"), out.integer(value.to_int()); return;
    case Scalar::Kind::Float: out.string("f"), write_number(out, value.to_double()); return;
    case Scalar::Kind::Complex: break;
  }
  out.string("c");
  write_number(out, value.to_complex().real());
  write_number(out, value.to_complex().imag());
}

Scalar read_scalar(const JsonTree::List& parts) {
  constexpr const char* kWhere = "a scalar";
  check(parts.size() >= 3, kWhere, ": a kind and a number are expected");
  const std::string& kind = parts[1].string(kWhere);
  if (kind == "b") return parts[2].boolean(kWhere);
  if (kind == "i") return parts[2].integer(kWhere);
  if (kind == "f") return read_number(parts[2], kWhere);
  check(kind == "c" && parts.size() == 4, kWhere, ": it has the kind '", kind, "'");
  return complex128(read_number(parts[2], kWhere), read_number(parts[3], kWhere));
}

void write_numbers(JsonWriter& out, const std::vector<double>& list) {
  out.begin_array();
  for (const double each : list) write_number(out, each);
  out.end_array();
}

// The tag and what follows it.
struct ValueWriter {
  JsonWriter& out;

  void operator()(std::monostate) const { out.string("nil"); }
  void operator()(const Tensor&) const { fail("a tensor outside the graph"); }
  void operator()(const std::vector<Tensor>&) const { fail("tensors outside the graph"); }
  void operator()(const Scalar& v) const { out.string("scalar"), write_scalar(out, v); }
  void operator()(int64_t v) const { out.string("int"), out.integer(v); }
  void operator()(double v) const { out.string("float"), write_number(out, v); }
  void operator()(bool v) const { out.string("bool"), out.boolean(v); }
  void operator()(const std::string& v) const { out.string("string"), out.string(v); }
  void operator()(const Dims& v) const { out.string("dims"), write_integers(out, v); }
  void operator()(const std::vector<int64_t>& v) const {
    out.string("ints"), write_integers(out, v);
  }
  void operator()(const std::vector<double>& v) const {
    out.string("floats"), write_numbers(out, v);
  }
  void operator()(DType v) const { out.string("dtype"), out.string(name(v)); }
  void operator()(Device v) const { out.string("device"), out.string(name(v)); }
  void operator()(MemoryFormat v) const { out.string("format"), out.string(name(v)); }
  void operator()(const Options& v) const {
    out.string("options"), out.string(name(v.dtype)), out.string(name(v.device));
  }
  void operator()(Generator* v) const {
    check(v == nullptr, "a generator cannot be saved");
    out.string("generator");
  }
};

BoxedValue read_value(const std::string& tag, const JsonTree::List& parts) {
  if (tag == "nil") return {};
  if (tag == "generator") return static_cast<Generator*>(nullptr);
  if (tag == "scalar") return read_scalar(parts);
  check(parts.size() == (tag == "options" ? 3 : 2), "an argument of kind '", tag,
        "' has the wrong length");
  const JsonTree& held = parts[1];
  const char* const where = "an argument";
  if (tag == "int") return held.integer(where);
  if (tag == "float") return read_number(held, where);
  if (tag == "bool") return held.boolean(where);
  if (tag == "string") return held.string(where);
  if (tag == "dims") return read_dims(held, where);
  if (tag == "dtype") return dtype_from_name(held.string(where));
  if (tag == "device") return device_from_name(held.string(where));
  if (tag == "format") return memory_format_from_name(held.string(where));
  if (tag == "options")
    return Options{dtype_from_name(held.string(where)), device_from_name(parts[2].string(where))};
  if (tag == "ints") {
    std::vector<int64_t> list;
    for (const JsonTree& each : held.list(where)) list.push_back(each.integer(where));
    return list;
  }
  check(tag == "floats", "an argument has the kind '", tag, "', which is not known");
  std::vector<double> list;
  for (const JsonTree& each : held.list(where)) list.push_back(read_number(each, where));
  return list;
}

}  // namespace

Dims read_dims(const JsonTree& tree, const char* where) {
  Dims out;
  for (const JsonTree& each : tree.list(where)) out.push_back(each.integer(where));
  return out;
}

ValueId read_id(const JsonTree& tree, const char* where) {
  return static_cast<ValueId>(tree.integer(where, kNone, std::numeric_limits<ValueId>::max() - 1));
}

void write_refs(JsonWriter& out, const ValueRefs& refs) {
  out.begin_array();
  for (const ValueRef& each : refs) out.integer(each.id);
  out.end_array();
}

ValueRefs read_refs(const JsonTree& tree, const char* where) {
  ValueRefs out;
  for (const JsonTree& each : tree.list(where)) out.push_back({read_id(each, where)});
  return out;
}

// A number alone is a value; a list of a list is several.
void write_argument(JsonWriter& out, const Argument& argument) {
  if (const auto* one = std::get_if<ValueRef>(&argument)) return out.integer(one->id);
  out.begin_array();
  if (const auto* list = std::get_if<ValueRefs>(&argument))
    write_refs(out, *list);
  else
    std::visit(ValueWriter{out}, std::get<BoxedValue>(argument));
  out.end_array();
}

Argument read_argument(const JsonTree& tree) {
  constexpr const char* kWhere = "an argument";
  if (std::holds_alternative<int64_t>(tree.value)) return ValueRef{read_id(tree, kWhere)};
  const JsonTree::List& parts = tree.list(kWhere);
  check(!parts.empty(), "an argument is an empty list");
  if (std::holds_alternative<JsonTree::List>(parts[0].value)) return read_refs(parts[0], kWhere);
  return read_value(parts[0].string(kWhere), parts);
}

}  // namespace moonlet::program
