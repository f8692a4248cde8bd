// autograd/native/op_schema.cpp: reads schemas of ops, and defaults in them.
#include "autograd/native/op_schema.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <iterator>
#include <limits>

#include "tensor/core/boxing.h"
#include "tensor/core/platform/charconv.h"

namespace moonlet {

namespace {

// As boxed calls of generated ops take it.
template <class T>
BoxedValue take(const BoxedValue& value) {
  return boxing::box(boxing::unbox<T>(value, 0));
}
BoxedValue take_tensor(const BoxedValue& value) { return boxing::tensor_in(value, 0); }
BoxedValue take_list(const BoxedValue& value) {
  return boxing::held_in<std::vector<Tensor>>(value, 0);
}

constexpr OpType kTypes[] = {
    {"Tensor", "Tensor", true, false, false, &take_tensor},
    {"Tensor?", "Tensor", true, false, true, &take_tensor},
    {"Tensor[]", "std::vector<Tensor>", true, false, false, &take_list},
    {"Operand", "Operand", true, false, false, &take<Operand>},
    {"Scalar", "Scalar", false, false, false, &take<Scalar>},
    {"Scalar?", "std::optional<Scalar>", false, false, true, &take<Scalar>},
    {"int", "int64_t", false, false, false, &take<int64_t>},
    {"int?", "std::optional<int64_t>", false, false, true, &take<int64_t>},
    {"int[]", "Dims", false, false, false, &take<Dims>},
    {"int[*]", "std::vector<int64_t>", false, false, false, &take<std::vector<int64_t>>},
    {"float", "double", false, false, false, &take<double>},
    {"float?", "std::optional<double>", false, false, true, &take<double>},
    {"float[*]", "std::vector<double>", false, false, false, &take<std::vector<double>>},
    {"bool", "bool", false, false, false, &take<bool>},
    {"bool?", "std::optional<bool>", false, false, true, &take<bool>},
    {"string", "std::string", false, false, false, &take<std::string>},
    {"Dim", "int64_t", false, true, false, &take<int64_t>},
    {"Dim?", "std::optional<int64_t>", false, true, true, &take<int64_t>},
    {"NewDim", "int64_t", false, true, false, &take<int64_t>},
    {"Dim[]", "Dims", false, true, false, &take<Dims>},
    {"DType", "DType", false, false, false, &take<DType>},
    {"DType?", "std::optional<DType>", false, false, true, &take<DType>},
    {"Device", "Device", false, false, false, &take<Device>},
    {"Device?", "std::optional<Device>", false, false, true, &take<Device>},
};

// What is read of a schema, from the front.
class Cursor {
 public:
  explicit Cursor(std::string_view text) : all_(text), rest_(text) {}

  [[noreturn]] void bad(const std::string& what) const {
    fail("schema '", std::string(all_), "': ", what);
  }
  void skip_spaces() {
    while (!rest_.empty() && std::isspace(static_cast<unsigned char>(rest_.front())))
      rest_.remove_prefix(1);
  }
  bool take(std::string_view token) {
    skip_spaces();
    if (!rest_.starts_with(token)) return false;
    rest_.remove_prefix(token.size());
    return true;
  }
  void want(std::string_view token) {
    if (take(token)) return;
    const std::string got =
        rest_.empty() ? "its end" : "'" + std::string(rest_.substr(0, 12)) + "'";
    bad("expected '" + std::string(token) + "', got " + got);
  }
  std::string word(const char* what) {
    skip_spaces();
    size_t size = 0;
    while (size < rest_.size() &&
           (std::isalnum(static_cast<unsigned char>(rest_[size])) || rest_[size] == '_'))
      ++size;
    if (size == 0 || std::isdigit(static_cast<unsigned char>(rest_[0])))
      bad(text(
          "expected ", what, ", got ",
          rest_.empty() ? std::string("its end") : "'" + std::string(rest_.substr(0, 12)) + "'"));
    return cut(size);
  }
  // "Dim[]?" and the like.
  std::string type() {
    std::string out = word("a type");
    for (const char* mark : {"[]", "[*]", "?"})
      if (rest_.starts_with(mark)) out += cut(std::string_view(mark).size());
    return out;
  }
  // Up to a comma or bracket that is not inside brackets or quotes.
  std::string value() {
    skip_spaces();
    int depth = 0;
    bool quoted = false;
    size_t size = 0;
    for (; size < rest_.size(); ++size) {
      const char c = rest_[size];
      if (c == '"') quoted = !quoted;
      if (quoted) continue;
      if (c == '{') ++depth;
      if (c == '}') --depth;
      if (depth == 0 && (c == ',' || c == ')')) break;
    }
    std::string out = cut(size);
    while (out.ends_with(' ')) out.pop_back();
    return out;
  }
  bool at_end() {
    skip_spaces();
    return rest_.empty();
  }

 private:
  std::string cut(size_t size) {
    std::string out(rest_.substr(0, size));
    rest_.remove_prefix(size);
    return out;
  }

  const std::string_view all_;
  std::string_view rest_;
};

const OpType* read_type(Cursor& in, bool& written) {
  std::string name = in.type();
  written = in.take("!");
  const OpType* type = find_op_type(name);
  if (!type) in.bad("unknown type '" + name + "'");
  if (written && type->name != std::string_view("Tensor"))
    in.bad("only a Tensor is written, not a " + name);
  return type;
}

void read_arguments(Cursor& in, OpSchema& out) {
  in.want("(");
  bool optional = false;
  while (!in.take(")")) {
    if (!out.arguments.empty()) in.want(",");
    OpSchema::Argument each;
    each.type = read_type(in, each.written);
    each.name = in.word("the name of an argument");
    if (out.find(each.name) >= 0) in.bad("two arguments are named '" + each.name + "'");
    if (in.take("=")) {
      each.default_text = in.value();
      if (each.default_text.empty()) in.bad("the default of '" + each.name + "' is missing");
    }
    const bool may_miss = !each.default_text.empty() || each.type->optional;
    if (optional && !may_miss)
      in.bad("'" + each.name + "' must be given and follows one that may be left out");
    optional = may_miss;
    out.arguments.push_back(std::move(each));
  }
}

OpSchema::Result read_result(Cursor& in, bool named) {
  OpSchema::Result out;
  const std::string type = in.type();
  if (type != "Tensor" && type != "Tensor[]")
    in.bad("a result is a Tensor or a Tensor[], not a " + type);
  out.list = type == "Tensor[]";
  if (named) out.name = in.word("the name of a result");
  return out;
}

void read_results(Cursor& in, OpSchema& out) {
  in.want("->");
  if (!in.take("(")) {
    out.results.push_back(read_result(in, false));
    out.results[0].name = out.find("y") >= 0 ? "result" : "y";
    return;
  }
  do out.results.push_back(read_result(in, true));
  while (in.take(","));
  in.want(")");
  for (size_t i = 0; i < out.results.size(); ++i) {
    const std::string& name = out.results[i].name;
    bool twice = out.find(name) >= 0;
    for (size_t k = 0; k < i; ++k) twice = twice || out.results[k].name == name;
    if (twice) in.bad("'" + name + "' names two things");
    if (out.results[i].list) in.bad("a list of tensors is the only result");
  }
}

// As scripts of other hosts write it back.
std::string written_out(const OpSchema& schema) {
  std::string out = schema.name + "(";
  for (const OpSchema::Argument& each : schema.arguments) {
    std::string type = each.type->name;
    if (each.written) type += "!";
    out += (out.back() == '(' ? "" : ", ") + type + " " + each.name;
    if (!each.default_text.empty()) out += "=" + each.default_text;
  }
  const auto result = [](const OpSchema::Result& r) { return r.list ? "Tensor[]" : "Tensor"; };
  if (schema.results.size() == 1) return out + ") -> " + result(schema.results[0]);
  out += ") -> (";
  for (const OpSchema::Result& each : schema.results)
    out += (out.back() == '(' ? "" : ", ") + std::string(result(each)) + " " + each.name;
  return out + ")";
}

}  // namespace

const OpType* find_op_type(std::string_view name) {
  if (name == "double") name = "float";
  if (name == "double?") name = "float?";
  const auto* found = std::find_if(std::begin(kTypes), std::end(kTypes),
                                   [&](const OpType& t) { return name == t.name; });
  return found == std::end(kTypes) ? nullptr : found;
}

int OpSchema::find(std::string_view argument) const {
  for (size_t i = 0; i < arguments.size(); ++i)
    if (arguments[i].name == argument) return static_cast<int>(i);
  return -1;
}

std::string_view OpSchema::library() const {
  const size_t at = name.find("::");
  return at == name.npos ? std::string_view() : std::string_view(name).substr(0, at);
}
std::string_view OpSchema::short_name() const {
  const size_t at = name.find("::");
  return std::string_view(name).substr(at == name.npos ? 0 : at + 2);
}

OpSchema parse_op_schema(std::string_view text) {
  Cursor in(text);
  OpSchema out;
  out.name = in.word("the name of an op");
  if (in.take("::")) out.name += "::" + in.word("the name of an op");
  if (out.name.ends_with('_')) in.bad("the name ends with _, which the in-place form adds");
  read_arguments(in, out);
  read_results(in, out);
  if (!in.at_end()) in.bad("something follows its results");
  for (const OpSchema::Argument& each : out.arguments) {
    try {
      if (!each.default_text.empty()) static_cast<void>(default_of(out, each));
    } catch (const Error& e) {
      in.bad(e.what());
    }
  }
  out.text = written_out(out);
  return out;
}

namespace {

template <class T>
bool read_whole(std::string_view from, T& out) {
  const auto [end, error] = platform::from_chars(from.data(), from.data() + from.size(), out);
  return error == std::errc() && end == from.data() + from.size();
}

// "{1, 2}"
template <class List>
bool read_list(std::string_view from, List& out) {
  if (!from.starts_with('{') || !from.ends_with('}')) return false;
  from = from.substr(1, from.size() - 2);
  while (!from.empty()) {
    std::string_view part = from.substr(0, from.find(','));
    from.remove_prefix(std::min(from.size(), part.size() + 1));
    while (part.starts_with(' ')) part.remove_prefix(1);
    while (part.ends_with(' ')) part.remove_suffix(1);
    typename List::value_type item{};
    if (!read_whole(part, item)) return false;
    out.push_back(item);
  }
  return true;
}

bool read_dims(std::string_view from, Dims& out) {
  std::vector<int64_t> list;
  if (!read_list(from, list) || list.size() > kMaxDims) return false;
  for (const int64_t n : list) out.push_back(n);
  return true;
}

bool read_number(std::string_view from, double& out) {
  if (from == "inf") return out = std::numeric_limits<double>::infinity(), true;
  if (from == "-inf") return out = -std::numeric_limits<double>::infinity(), true;
  return read_whole(from, out);
}

// False where the text is no value of the type.
bool read_default(std::string_view from, std::string_view type, BoxedValue& out) {
  if (from == "nil" || (from == "{}" && type.ends_with('?'))) return type.ends_with('?');
  if (type.ends_with('?')) type.remove_suffix(1);
  int64_t whole = 0;
  double number = 0;
  Dims dims;
  std::vector<int64_t> integers;
  std::vector<double> numbers;
  const bool is_whole = read_whole(from, whole), is_bool = from == "true" || from == "false";
  if (type == "int" || type == "Dim" || type == "NewDim") return is_whole && (out = whole, true);
  if (type == "float") return read_number(from, number) && (out = number, true);
  if (type == "bool") return is_bool && (out = from == "true", true);
  if (type == "Scalar" || type == "Operand") {
    if (is_bool) return out = Scalar(from == "true"), true;
    if (is_whole) return out = Scalar(whole), true;
    return read_number(from, number) && (out = Scalar(number), true);
  }
  if (type == "string") {
    const bool quoted = from.size() >= 2 && from.front() == '"' && from.back() == '"';
    return quoted && (out = std::string(from.substr(1, from.size() - 2)), true);
  }
  if (type == "int[]" || type == "Dim[]") return read_dims(from, dims) && (out = dims, true);
  if (type == "int[*]") return read_list(from, integers) && (out = integers, true);
  if (type == "float[*]") return read_list(from, numbers) && (out = numbers, true);
  return false;
}

}  // namespace

BoxedValue default_of(const OpSchema& schema, const OpSchema::Argument& argument) {
  const std::string_view type = argument.type->name;
  BoxedValue out;
  if (argument.default_text.empty()) {
    if (argument.type->optional) return out;
    fail(schema.name, ": argument '", argument.name, "' is missing");
  }
  if (!read_default(argument.default_text, type, out))
    fail("the default of '", argument.name, "' is no ", type, ": ", argument.default_text);
  return out;
}

BoxedValue as_type(const char* op, const OpSchema::Argument& argument, const BoxedValue& value) {
  if (std::holds_alternative<std::monostate>(value)) {
    if (!argument.type->optional) fail(op, ": argument '", argument.name, "' is missing");
    return value;
  }
  try {
    return argument.type->take(value);
  } catch (const boxing::WrongKind& wrong) {
    fail(op, ": argument '", argument.name, "' must be ", wrong.wanted);
  }
}

}  // namespace moonlet
