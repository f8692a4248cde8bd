// interp/binding/csv.cpp: CSV files for module moonlet.io: options and columns as tables of Lua.
#include "interp/binding/csv.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "interp/binding/io.h"
#include "interp/binding/tensor/tensor_userdata.h"
#include "interp/state/entry.h"
#include "tensor/io/bytes.h"
#include "tensor/io/csv.h"
#include "tensor/io/dates.h"
#include "tensor/runtime/interrupt.h"

namespace moonlet::binding {
namespace {

// The strings between two looks at the stop flag.
constexpr size_t kStopStrings = 1 << 16;

// --- options -------------------------------------------------------------------------------------

std::string string_at(lua_State* L, int index) {
  size_t size = 0;
  const char* text = luaL_checklstring(L, index, &size);
  return {text, size};
}

// The fields of the table of options on top of the stack, which the standard library has checked.
class OptionFields {
 public:
  explicit OptionFields(lua_State* L) : L_(L) {}

  void read(const char* name, bool& to) {
    if (get(name)) to = lua_toboolean(L_, -1) != 0;
    lua_pop(L_, 1);
  }
  void read(const char* name, std::string& to) {
    if (get(name)) to = string_at(L_, -1);
    lua_pop(L_, 1);
  }
  void read(const char* name, std::optional<std::string>& to) {
    if (get(name)) to = string_at(L_, -1);
    lua_pop(L_, 1);
  }
  void read(const char* name, int64_t& to) {
    if (get(name)) to = luaL_checkinteger(L_, -1);
    lua_pop(L_, 1);
  }
  void read(const char* name, std::vector<std::string>& to) {
    if (get(name)) to = strings();
    lua_pop(L_, 1);
  }
  // Positions, which count from 1 in scripts.
  void read_positions(const char* name, std::vector<int64_t>& to, int64_t first) {
    if (get(name)) {
      const lua_Integer count = luaL_len(L_, -1);
      for (lua_Integer i = 1; i <= count; ++i) {
        lua_geti(L_, -1, i);
        to.push_back(luaL_checkinteger(L_, -1) - 1 + first);
        lua_pop(L_, 1);
      }
    }
    lua_pop(L_, 1);
  }
  // Calls f(name, ...) with the value on the stack for each name of a table.
  template <class F>
  void each(const char* name, F&& f) {
    if (get(name)) {
      lua_pushnil(L_);
      while (lua_next(L_, -2) != 0) {
        f(string_at(L_, -2));
        lua_pop(L_, 1);
      }
    }
    lua_pop(L_, 1);
  }
  std::vector<std::string> strings() {
    std::vector<std::string> out;
    const lua_Integer count = luaL_len(L_, -1);
    for (lua_Integer i = 1; i <= count; ++i) {
      lua_geti(L_, -1, i);
      out.push_back(string_at(L_, -1));
      lua_pop(L_, 1);
    }
    return out;
  }

 private:
  bool get(const char* name) {
    lua_getfield(L_, -1, name);
    return !lua_isnil(L_, -1);
  }
  lua_State* L_;
};

io::CsvType type_named(const std::string& name) {
  if (name == "number") return {io::CsvKind::Number, {}};
  if (name == "text") return {io::CsvKind::Text, {}};
  if (name == "bool") return {io::CsvKind::Bool, {}};
  if (name == "date") return {io::CsvKind::Date, {}};
  return {io::CsvKind::Exact, dtype_from_name(name)};
}

io::CsvBadLines bad_lines_named(const std::string& name) {
  if (name == "skip") return io::CsvBadLines::Skip;
  return name == "warn" ? io::CsvBadLines::Warn : io::CsvBadLines::Error;
}

void read_format(OptionFields& fields, io::CsvReadOptions& o) {
  fields.read("separator", o.separator);
  fields.read("quotechar", o.quotechar);
  fields.read("escapechar", o.escapechar);
  fields.read("comment", o.comment);
  fields.read("decimal", o.decimal);
  fields.read("thousands", o.thousands);
  fields.read("doublequote", o.doublequote);
  fields.read("skipinitialspace", o.skipinitialspace);
  fields.read("skip_blank_lines", o.skip_blank_lines);
  fields.read("delim_whitespace", o.delim_whitespace);
  fields.read("detect_separator", o.detect_separator);
  fields.read("skip_remarks", o.skip_remarks);
  fields.read("encoding", o.encoding);
}

io::CsvReadOptions read_options(lua_State* L, int index) {
  lua_settop(L, index);
  OptionFields fields(L);
  io::CsvReadOptions o;
  read_format(fields, o);
  fields.read("header", o.header);
  fields.read_positions("header_rows", o.header_rows, 0);
  fields.read("names", o.names);
  fields.read("use_names", o.use_names);
  fields.read_positions("use_columns", o.use_columns, 0);
  fields.read("skiprows", o.skiprows);
  fields.read_positions("skip_lines", o.skip_lines, 1);
  fields.read("skipfooter", o.skipfooter);
  fields.read("nrows", o.nrows);
  fields.read("leading_index", o.leading_index);
  fields.read("missing", o.missing);
  fields.each("missing_in",
              [&](const std::string& name) { o.missing_in.emplace_back(name, fields.strings()); });
  fields.read("true_values", o.true_values);
  fields.read("false_values", o.false_values);
  fields.each("types", [&](const std::string& name) {
    o.types.emplace_back(name, type_named(string_at(L, -1)));
  });
  fields.read("date_columns", o.date_columns);
  fields.read_positions("date_positions", o.date_positions, 0);
  fields.read("dayfirst", o.dayfirst);
  fields.read("date_format", o.date_format);
  std::string text;
  fields.read("on_bad_lines", text);
  o.on_bad_lines = bad_lines_named(text);
  text.clear();
  fields.read("dtype", text);
  if (!text.empty()) o.dtype = dtype_from_name(text);
  fields.read("max_bytes", o.max_bytes);
  return o;
}

// --- results -------------------------------------------------------------------------------------

template <class Strings>
int push_strings(lua_State* L, const Strings& texts) {
  lua_createtable(L, static_cast<int>(std::min<size_t>(texts.size(), INT32_MAX)), 0);
  for (size_t i = 0; i < texts.size(); ++i) {
    if (i % kStopStrings == kStopStrings - 1) stop_if_requested();
    push_string(L, texts[i]);
    lua_rawseti(L, -2, static_cast<lua_Integer>(i) + 1);
  }
  return 1;
}

void set_columns(lua_State* L, io::CsvTable& table) {
  lua_createtable(L, static_cast<int>(table.columns.size()), 0);
  for (size_t i = 0; i < table.columns.size(); ++i) {
    io::CsvColumn& column = table.columns[i];
    lua_createtable(L, 3, 0);
    push_string(L, column.name);
    lua_rawseti(L, -2, 1);
    if (column.values.defined())
      push_result(L, std::move(column.values));
    else
      push_strings(L, column.texts);
    lua_rawseti(L, -2, 2);
    lua_pushboolean(L, column.dates ? 1 : 0);
    lua_rawseti(L, -2, 3);
    lua_rawseti(L, -2, static_cast<lua_Integer>(i) + 1);
    // The texts are strings of the script now.
    column = io::CsvColumn();
  }
}

// read_csv(path, options) -> tensor, and the names where there are any
int l_read_csv(lua_State* L) {
  const std::string path = path_argument(L, 1, "read_csv");
  io::CsvNumbers file = io::read_csv(path, read_options(L, 2));
  push_result(L, std::move(file.values));
  return file.names.empty() ? 1 : 1 + push_strings(L, file.names);
}

// read_csv_table(path, options) -> { { name, values, is_date }, .. }, number of rows, number of
// columns in front that the header does not name, warnings. Errors are those of data.read_table.
int l_read_csv_table(lua_State* L) {
  const std::string path = path_argument(L, 1, "read_table");
  io::CsvTable table = io::read_csv_table(path, read_options(L, 2), "read_table");
  set_columns(L, table);
  lua_pushinteger(L, table.rows);
  lua_pushinteger(L, table.index_columns);
  push_strings(L, table.warnings);
  return 4;
}

io::CsvWriteOptions write_options(lua_State* L, int header, int separator) {
  io::CsvWriteOptions options;
  options.separator = string_at(L, separator);
  if (lua_isnil(L, header)) return options;
  std::vector<std::string>& names = options.header.emplace();
  const lua_Integer count = luaL_len(L, header);
  for (lua_Integer i = 1; i <= count; ++i) {
    lua_rawgeti(L, header, i);
    names.push_back(string_at(L, -1));
    lua_pop(L, 1);
  }
  return options;
}

// write_csv(path, tensor, names or nil, separator)
int l_write_csv(lua_State* L) {
  const std::string path = path_argument(L, 1, "write_csv");
  const Tensor tensor = check_tensor(L, 2, "write_csv");
  io::write_csv(path, tensor, write_options(L, 3, 4));
  return 0;
}

// The column { name, values, is_date } on top of the stack. Its strings stay in their table.
io::CsvColumn column_at(lua_State* L) {
  io::CsvColumn out;
  lua_rawgeti(L, -1, 1);
  out.name = string_at(L, -1);
  lua_rawgeti(L, -2, 3);
  out.dates = lua_toboolean(L, -1) != 0;
  lua_rawgeti(L, -3, 2);
  if (lua_type(L, -1) != LUA_TTABLE) {
    out.values = check_tensor(L, -1, "write_csv");
  } else {
    const lua_Integer count = luaL_len(L, -1);
    for (lua_Integer i = 1; i <= count; ++i) {
      size_t size = 0;
      if (lua_rawgeti(L, -1, i) != LUA_TSTRING)
        fail("write_csv: column '", out.name, "', row ", int64_t{i}, ": a text is expected, got ",
             type_name(L, -1));
      const char* text = lua_tolstring(L, -1, &size);
      out.texts.emplace_back(text, size);
      lua_pop(L, 1);
    }
  }
  lua_pop(L, 3);
  return out;
}

// write_csv_table(path, { { name, values, is_date }, .. }, names or nil, separator)
int l_write_csv_table(lua_State* L) {
  const std::string path = path_argument(L, 1, "write_csv");
  std::vector<io::CsvColumn> columns;
  const lua_Integer count = luaL_len(L, 2);
  for (lua_Integer i = 1; i <= count; ++i) {
    lua_rawgeti(L, 2, i);
    columns.push_back(column_at(L));
    lua_pop(L, 1);
  }
  io::write_csv_table(path, columns, write_options(L, 3, 4));
  return 0;
}

// date_fields(seconds) -> a tensor (8, n): year, month, day, hour, minute, second, weekday and day
// of the year for each of a 1-D tensor; int64, or float64 with NaN for what is not known.
int l_date_fields(lua_State* L) {
  constexpr const char* kOp = "date_fields";
  const Tensor given = io::host_rows(check_tensor(L, 1, kOp), kOp);
  if (given.dim() != 1 || (given.dtype() != DType::Int64 && given.dtype() != DType::Float64))
    fail(kOp, ": a 1-D tensor of int64 or float64 is expected, got ", name(given.dtype()),
         " of shape ", given.sizes());
  const int64_t count = given.size(0);
  Tensor out = empty_plain({8, count}, {given.dtype(), {}}, kOp);
  visit<bit(DType::Int64) | bit(DType::Float64)>(given.dtype(), [&]<class T>() {
    const T* seconds = given.elements<T>();
    T* to = out.elements<T>();
    for (int64_t i = 0; i < count; ++i) {
      if (i % static_cast<int64_t>(kStopStrings) == 0) stop_if_requested();
      const auto value = static_cast<double>(seconds[i]);
      const bool known = value >= -1e15 && value <= 1e15;
      const io::DateFields f = io::date_fields(known ? static_cast<int64_t>(std::floor(value)) : 0);
      const double second = static_cast<double>(f.second) + (value - std::floor(value));
      const double all[] = {double(f.year),    double(f.month),  double(f.day),
                            double(f.hour),    double(f.minute), second,
                            double(f.weekday), double(f.yearday)};
      for (int64_t k = 0; k < 8; ++k)
        to[k * count + i] =
            static_cast<T>(known ? all[k] : std::numeric_limits<double>::quiet_NaN());
    }
  });
  return push_result(L, out);
}

}  // namespace

void register_csv(lua_State* L) {
  static const luaL_Reg kFunctions[] = {
      {"read_csv", op_guard<l_read_csv>},       {"read_csv_table", op_guard<l_read_csv_table>},
      {"write_csv", op_guard<l_write_csv>},     {"write_csv_table", op_guard<l_write_csv_table>},
      {"date_fields", op_guard<l_date_fields>}, {nullptr, nullptr}};
  set_functions(L, -1, kFunctions);
}

}  // namespace moonlet::binding
