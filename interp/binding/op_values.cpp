// interp/binding/op_values.cpp: boxed arguments and results to Lua values and back.
#include "interp/binding/op_values.h"

#include "interp/binding/arg_reader.h"
#include "interp/binding/tensor/shape.h"

namespace moonlet::binding {
namespace {

// A type without its mark for "may be left out".
std::string_view plain(std::string_view type) {
  if (type.ends_with('?')) type.remove_suffix(1);
  return type;
}

bool counts_from_one(std::string_view type) {
  return type.starts_with("Dim") || type.starts_with("NewDim") || type.starts_with("Index");
}

bool is_list(std::string_view type) { return type.find('[') != type.npos; }

int64_t to_script(int64_t value, bool from_one) {
  return from_one && value >= 0 ? value + 1 : value;
}

template <class List>
void push_list(lua_State* L, const List& list, bool from_one) {
  lua_createtable(L, static_cast<int>(list.size()), 0);
  lua_Integer i = 0;
  for (const int64_t value : list) {
    lua_pushinteger(L, to_script(value, from_one));
    lua_rawseti(L, -2, ++i);
  }
}

void push_list(lua_State* L, const std::vector<double>& list, bool) {
  lua_createtable(L, static_cast<int>(list.size()), 0);
  lua_Integer i = 0;
  for (const double value : list) {
    lua_pushnumber(L, value);
    lua_rawseti(L, -2, ++i);
  }
}

// A missing tensor in a list is false, because a table cannot hold nil.
void push_tensors(lua_State* L, const std::vector<Tensor>& list) {
  lua_createtable(L, static_cast<int>(list.size()), 0);
  for (size_t i = 0; i < list.size(); ++i) {
    if (list[i].defined())
      push_tensor(L, list[i]);
    else
      lua_pushboolean(L, 0);
    lua_rawseti(L, -2, static_cast<lua_Integer>(i + 1));
  }
}

void push_options(lua_State* L, const Options& options) {
  lua_createtable(L, 0, 2);
  push_string(L, name(options.dtype));
  lua_setfield(L, -2, "dtype");
  push_string(L, name(options.device));
  lua_setfield(L, -2, "device");
}

void push_value(lua_State* L, const BoxedValue& value, std::string_view type) {
  const bool from_one = counts_from_one(type);
  std::visit(
      [&](const auto& v) {
        using T = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<T, std::monostate>)
          lua_pushnil(L);
        else if constexpr (std::is_same_v<T, Tensor>)
          push_tensor(L, v);
        else if constexpr (std::is_same_v<T, std::vector<Tensor>>)
          push_tensors(L, v);
        else if constexpr (std::is_same_v<T, Dims> || std::is_same_v<T, std::vector<int64_t>> ||
                           std::is_same_v<T, std::vector<double>>)
          push_list(L, v, from_one);
        else if constexpr (std::is_same_v<T, int64_t>)
          lua_pushinteger(L, to_script(v, from_one));
        else if constexpr (std::is_same_v<T, std::string>)
          push_string(L, v);
        else if constexpr (std::is_same_v<T, DType> || std::is_same_v<T, Device> ||
                           std::is_same_v<T, MemoryFormat>)
          push_string(L, name(v));
        else if constexpr (std::is_same_v<T, Options>)
          push_options(L, v);
        else if constexpr (std::is_pointer_v<T>)
          lua_pushlightuserdata(L, v);
        else
          push_result(L, v);
      },
      value);
}

// Reads one value of a row's type. Errors name the op and the argument.
class Reader {
 public:
  Reader(lua_State* L, const OpInfo& op, const SchemaArgument& spec, const char* what)
      : L_(L), op_(op), spec_(spec), type_(plain(spec.type)), what_(what) {}

  BoxedValue read(int index, const BoxedValue* before) {
    const int top = lua_gettop(L_);
    luaL_checkstack(L_, 4, "too many arguments");
    BoxedValue value = lua_isnil(L_, index) ? absent(before) : present(index, before);
    lua_settop(L_, top);
    return value;
  }

 private:
  [[noreturn]] void bad(int index, const char* wanted) {
    fail(op_.name, ": ", label(), " must be ", wanted, ", got ", type_name(L_, index));
  }

  // "argument 'x'"; a result may have no name.
  std::string label() const {
    return spec_.name.empty() ? std::string(what_) : moonlet::text(what_, " '", spec_.name, "'");
  }

  BoxedValue absent(const BoxedValue* before) {
    if (spec_.type == "Dim[*]") return Dims{};  // all of them
    const bool optional = spec_.type.ends_with('?');
    const bool was_absent = before && std::holds_alternative<std::monostate>(*before);
    if (!optional && !was_absent) fail(op_.name, ": ", label(), " is missing");
    return {};
  }

  BoxedValue present(int index, const BoxedValue* before) {
    if (type_ == "Tensor" || type_ == "Mask" || type_ == "Positions") return tensor(index);
    if (type_ == "Operand" && tensor_cell(L_, index)) return tensor(index);
    if (type_ == "Operand" || type_ == "Scalar") return scalar(index);
    if (type_.starts_with("Tensor") || type_ == "Indices") return tensors(index);
    if (type_ == "float[*]") return numbers(index);
    if (is_list(type_)) return list(index, before);
    if (type_ == "int" || counts_from_one(type_)) return integer(index);
    if (type_ == "float") return number(index);
    if (type_ == "bool" || type_ == "false") return boolean(index);
    if (type_ == "string") return std::string(text(index, "a string"));
    if (type_ == "DType") return dtype_from_name(text(index, "a dtype"));
    if (type_ == "Device") return device_from_name(text(index, "a device"));
    if (type_ == "MemoryFormat") return memory_format_from_name(text(index, "a memory format"));
    if (type_ == "Options") return options(index, before);
    return handed_on(index, before);
  }

  BoxedValue tensor(int index) {
    const Tensor* cell = tensor_cell(L_, index);
    if (!cell || !cell->defined()) bad(index, "a tensor");
    note_seen(L_, index);
    return *cell;
  }

  BoxedValue scalar(int index) {
    const std::optional<Scalar> value = scalar_at(L_, index);
    if (!value) bad(index, type_ == "Operand" ? "a tensor or a number" : "a number");
    return *value;
  }

  BoxedValue tensors(int index) {
    if (lua_type(L_, index) != LUA_TTABLE) bad(index, "a table of tensors");
    std::vector<Tensor> out;
    const auto count = static_cast<lua_Integer>(lua_rawlen(L_, index));
    for (lua_Integer i = 1; i <= count; ++i) {
      lua_rawgeti(L_, index, i);
      const Tensor* cell = tensor_cell(L_, -1);
      const bool none = type_ != "Tensor[]" && !lua_toboolean(L_, -1);
      if (!none && (!cell || !cell->defined()))
        fail(op_.name, ": item ", static_cast<int64_t>(i), " of ", label(),
             " must be a tensor, got ", type_name(L_, -1));
      out.push_back(none ? Tensor() : *cell);
      note_seen(L_, -1);
      lua_pop(L_, 1);
    }
    return out;
  }

  int64_t integer(int index) {
    const std::optional<int64_t> value = whole_number(L_, index);
    if (!value) bad(index, is_list(type_) ? "a table of integers" : "an integer");
    if (!counts_from_one(type_) || *value < 0) return *value;
    if (*value == 0)
      fail(op_.name, ": ", label(),
           " is 0: ", type_.starts_with("Index") ? "positions" : "dimensions", " start at 1");
    return *value - 1;
  }

  BoxedValue list(int index, const BoxedValue* before) {
    if (lua_type(L_, index) != LUA_TTABLE) bad(index, "a table of integers");
    std::vector<int64_t> out;
    push_plain_list(L_, index);
    const int items = lua_gettop(L_);
    const auto count = static_cast<lua_Integer>(lua_rawlen(L_, items));
    for (lua_Integer i = 1; i <= count; ++i) {
      lua_rawgeti(L_, items, i);
      out.push_back(integer(lua_gettop(L_)));
      lua_pop(L_, 1);
    }
    if (before && std::holds_alternative<std::vector<int64_t>>(*before)) return out;
    Dims dims;
    for (const int64_t value : out) dims.push_back(value);
    return dims;
  }

  BoxedValue numbers(int index) {
    if (lua_type(L_, index) != LUA_TTABLE) bad(index, "a table of numbers");
    std::vector<double> out;
    const auto count = static_cast<lua_Integer>(lua_rawlen(L_, index));
    for (lua_Integer i = 1; i <= count; ++i) {
      if (lua_rawgeti(L_, index, i) != LUA_TNUMBER) bad(index, "a table of numbers");
      out.push_back(lua_tonumber(L_, -1));
      lua_pop(L_, 1);
    }
    return out;
  }

  BoxedValue number(int index) {
    if (lua_type(L_, index) != LUA_TNUMBER) bad(index, "a number");
    return static_cast<double>(lua_tonumber(L_, index));
  }

  BoxedValue boolean(int index) {
    if (!lua_isboolean(L_, index)) bad(index, "true or false");
    return lua_toboolean(L_, index) != 0;
  }

  std::string_view text(int index, const char* wanted) {
    if (lua_type(L_, index) != LUA_TSTRING) bad(index, wanted);
    size_t length = 0;
    const char* value = lua_tolstring(L_, index, &length);
    return {value, length};
  }

  BoxedValue options(int index, const BoxedValue* before) {
    if (lua_type(L_, index) != LUA_TTABLE) bad(index, "a table of dtype and device");
    Options out;
    if (before && std::holds_alternative<Options>(*before)) out = std::get<Options>(*before);
    if (lua_getfield(L_, index, "dtype") != LUA_TNIL)
      out.dtype = dtype_from_name(text(lua_gettop(L_), "a table with a dtype's name"));
    if (lua_getfield(L_, index, "device") != LUA_TNIL)
      out.device = device_from_name(text(lua_gettop(L_), "a table with a device's name"));
    return out;
  }

  BoxedValue handed_on(int index, const BoxedValue* before) {
    if (!before) bad(index, "what the op was called with");
    push_value(L_, *before, type_);
    if (!lua_rawequal(L_, index, -1)) bad(index, "what the op was called with");
    return *before;
  }

  lua_State* L_;
  const OpInfo& op_;
  const SchemaArgument& spec_;
  std::string_view type_;
  const char* what_;
};

void check_count(const OpInfo& op, int given, size_t wanted, const char* giver) {
  if (given != static_cast<int>(wanted))
    fail(op.name, ": ", giver, " gives ", given, given == 1 ? " result, " : " results, ", wanted,
         wanted == 1 ? " is" : " are", " expected");
}

}  // namespace

std::vector<SchemaArgument> results_of(const OpInfo& op) {
  std::vector<SchemaArgument> out;
  std::string_view text = op.row->schema;
  text.remove_prefix(text.rfind("->") + 2);
  if (op.row->result_count == 0) text = {};
  while (!text.empty()) {
    std::string_view one = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), one.size() + 1));
    const auto first = one.find_first_not_of(" (");
    one = one.substr(first, one.find_last_not_of(" )") + 1 - first);
    const auto space = one.find(' ');
    const bool named = space != one.npos;
    out.push_back({named ? std::string(one.substr(space + 1)) : "",
                   std::string(one.substr(0, space)), nullptr, false});
  }
  return out;
}

std::vector<SchemaArgument> arguments_of(const OpInfo& op) {
  std::vector<SchemaArgument> out;
  if (op.form == OpInfo::Form::Out)
    for (int i = 0; i < op.row->result_count; ++i)
      out.push_back(
          {op.row->result_count == 1 ? "out" : text("out", i + 1), "Tensor", nullptr, true});
  for (int i = 0; i < op.row->argument_count; ++i) {
    const ArgumentInfo& arg = op.row->arguments[i];
    out.push_back({arg.name, arg.type, arg.default_value, false});
  }
  for (size_t i = 0; i < out.size(); ++i) out[i].written = op.writes(static_cast<int>(i));
  return out;
}

void push_arguments(lua_State* L, const OpInfo& op, const BoxedValues& arguments) {
  const std::vector<SchemaArgument> schema = arguments_of(op);
  luaL_checkstack(L, 8, "too many arguments");
  lua_createtable(L, static_cast<int>(schema.size()), 0);
  for (size_t i = 0; i < arguments.size() && i < schema.size(); ++i) {
    push_value(L, arguments[i], plain(schema[i].type));
    lua_rawseti(L, -2, static_cast<lua_Integer>(i + 1));
  }
  push_op(L, op);
  lua_getfield(L, -1, "_named");
  lua_setmetatable(L, -3);
  lua_pop(L, 1);
}

bool is_arguments(lua_State* L, int index, const OpInfo& op) {
  if (lua_type(L, index) != LUA_TTABLE) return false;
  const std::vector<SchemaArgument> schema = arguments_of(op);
  if (schema.empty() || !is_list(schema[0].type)) return true;
  if (!lua_getmetatable(L, index)) return false;
  push_op(L, op);
  lua_getfield(L, -1, "_named");
  const bool same = lua_rawequal(L, -1, -3);
  lua_pop(L, 3);
  return same;
}

BoxedValues arguments_at(lua_State* L, int table, const OpInfo& op, const BoxedValues& before) {
  const std::vector<SchemaArgument> schema = arguments_of(op);
  BoxedValues out;
  for (size_t i = 0; i < schema.size(); ++i) {
    lua_rawgeti(L, table, static_cast<lua_Integer>(i + 1));
    out.push_back(Reader(L, op, schema[i], "argument").read(lua_gettop(L), &before.at(i)));
    lua_pop(L, 1);
  }
  lua_rawgeti(L, table, static_cast<lua_Integer>(schema.size() + 1));
  const bool more = !lua_isnil(L, -1);
  lua_pop(L, 1);
  check(!more, op.name, ": too many arguments, ", schema.size(), " are expected");
  return out;
}

BoxedValues arguments_from(lua_State* L, int first, int count, const OpInfo& op,
                           const BoxedValues& before) {
  const std::vector<SchemaArgument> schema = arguments_of(op);
  check(count <= static_cast<int>(schema.size()), op.name, ": too many arguments, ", schema.size(),
        " are expected, got ", count);
  lua_settop(L, first - 1 + static_cast<int>(schema.size()));
  BoxedValues out;
  for (size_t i = 0; i < schema.size(); ++i)
    out.push_back(
        Reader(L, op, schema[i], "argument").read(first + static_cast<int>(i), &before.at(i)));
  return out;
}

void push_argument(lua_State* L, const OpInfo& op, size_t i, const BoxedValue& value) {
  push_value(L, value, plain(op.row->arguments[i].type));
}

int push_results(lua_State* L, const BoxedValues& results) {
  luaL_checkstack(L, static_cast<int>(results.size()) + 4, "too many results");
  for (const BoxedValue& value : results) push_value(L, value, "");
  return static_cast<int>(results.size());
}

BoxedValues results_from(lua_State* L, int first, int count, const OpInfo& op,
                         std::span<const BoxedValue> arguments, const BoxedValues& before,
                         const char* giver) {
  const std::vector<SchemaArgument> schema = results_of(op);
  BoxedValues out;
  if (op.form == OpInfo::Form::Plain) {
    check_count(op, count, schema.size(), giver);
    for (int i = 0; i < count; ++i) {
      const auto at = static_cast<size_t>(i);
      out.push_back(Reader(L, op, schema[at], "result")
                        .read(first + i, at < before.size() ? &before[at] : nullptr));
    }
    return out;
  }
  // What is written is the caller's tensor, which no other can stand for.
  const size_t written = op.form == OpInfo::Form::Out ? schema.size() : 1;
  check_count(op, count, written, giver);
  for (size_t i = 0; i < written; ++i) {
    const Tensor* cell = tensor_cell(L, first + static_cast<int>(i));
    const Tensor& target = std::get<Tensor>(arguments[i]);
    if (!cell || !cell->defined() || !cell->is_same(target))
      fail(op.name, ": ", giver, " must return the tensor that is written, got ",
           cell && cell->defined() ? "another one" : type_name(L, first + static_cast<int>(i)));
    out.push_back(*cell);
  }
  return out;
}

lua_State* running_coroutine(lua_State* main) {
  lua_State* running = state_data(main).running;
  return running ? running : main;
}

}  // namespace moonlet::binding
