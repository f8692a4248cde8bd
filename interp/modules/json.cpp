// interp/modules/json.cpp: module moonlet.json: JSON texts from plain Lua values and back.
#include "interp/modules/modules.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <vector>

#include "interp/binding/tensor/tensor_userdata.h"
#include "interp/state/guard.h"
#include "interp/state/namespace.h"
#include "interp/state/nearest.h"
#include "tensor/io/json.h"
#include "tensor/io/read_budget.h"
#include "tensor/runtime/interrupt.h"

namespace moonlet {
namespace {

// The value that stands for null, and the tables that are arrays also where they are empty.
constexpr int kNull = lua_upvalueindex(1), kArrays = lua_upvalueindex(2);

// What becomes of numbers that JSON has no text for.
enum class NoNumber { kFail, kNull, kLiteral };

struct EncodeOptions {
  int indent = 0;
  NoNumber nan = NoNumber::kFail;
};

// A text that grows as a Lua value, so that it counts in the script's memory while it does. Takes a
// position of the stack.
class GrowingText {
 public:
  explicit GrowingText(lua_State* L) : L_(L) {
    lua_pushnil(L);
    position_ = lua_gettop(L);
  }
  void add(std::string_view piece) {
    stop_if_requested();
    if (size_ + piece.size() > room_) {
      const size_t room = std::max(2 * room_, size_ + piece.size());
      auto* const moved = static_cast<char*>(lua_newuserdatauv(L_, room, 0));
      std::copy_n(data_, size_, moved);
      lua_replace(L_, position_);
      data_ = moved;
      room_ = room;
    }
    std::copy(piece.begin(), piece.end(), data_ + size_);
    size_ += piece.size();
  }
  void push() const { lua_pushlstring(L_, data_, size_); }

 private:
  lua_State* L_;
  int position_;
  char* data_ = nullptr;
  size_t size_ = 0, room_ = 0;
};

// Makes Lua values: what is finished goes into the table below it on the stack.
class TableBuilder : public io::JsonHandler {
 public:
  // `null` is the index of the value for null.
  TableBuilder(lua_State* L, int null) : L_(L), null_(null) {}

  void null() override {
    lua_pushvalue(L_, null_);
    position();
  }
  void boolean(bool value) override {
    lua_pushboolean(L_, value);
    position();
  }
  void integer(int64_t value) override {
    lua_pushinteger(L_, value);
    position();
  }
  void number(double value) override {
    lua_pushnumber(L_, value);
    position();
  }
  void string(std::string value) override {
    lua_pushlstring(L_, value.data(), value.size());
    position();
  }
  void begin_array() override { open(false); }
  void end_array() override { close(); }
  void begin_object() override { open(true); }
  void key(std::string name) override { lua_pushlstring(L_, name.data(), name.size()); }
  void end_object() override { close(); }

 private:
  struct Level {
    bool object;
    lua_Integer count;
  };

  void open(bool object) {
    luaL_checkstack(L_, 4, "a deep JSON value");
    lua_newtable(L_);
    levels_.push_back({object, 0});
  }
  void close() {
    if (!levels_.back().object && levels_.back().count == 0) {
      lua_pushvalue(L_, -1);
      lua_pushboolean(L_, 1);
      lua_rawset(L_, kArrays);
    }
    levels_.pop_back();
    position();
  }
  void position() {
    if (++placed_ % kStopStep == 0) stop_if_requested();
    if (levels_.empty()) return;
    if (levels_.back().object)
      lua_rawset(L_, -3);
    else
      lua_rawseti(L_, -2, ++levels_.back().count);
  }

  // The values between two looks at the stop flag.
  static constexpr int64_t kStopStep = 4096;

  lua_State* L_;
  int null_;
  std::vector<Level> levels_;
  int64_t placed_ = 0;
};

// A walk over a value.
class Encoder {
 public:
  Encoder(lua_State* L, io::JsonWriter& out, const EncodeOptions& options)
      : L(L), out(out), options_(options) {}
  void encode(int index, int depth);

 private:
  void encode_array(int table, int depth);
  void encode_object(int table, int depth);
  void encode_table(int table, int depth);
  void encode_number(double value);

  lua_State* L;
  io::JsonWriter& out;
  const EncodeOptions& options_;
};

void Encoder::encode_array(int table, int depth) {
  const lua_Integer count = static_cast<lua_Integer>(lua_rawlen(L, table));
  out.begin_array();
  for (lua_Integer i = 1; i <= count; ++i) {
    lua_rawgeti(L, table, i);
    encode(lua_gettop(L), depth + 1);
    lua_pop(L, 1);
  }
  out.end_array();
  lua_pushnil(L);
  while (lua_next(L, table) != 0) {
    lua_pop(L, 1);
    const bool item =
        lua_isinteger(L, -1) && lua_tointeger(L, -1) >= 1 && lua_tointeger(L, -1) <= count;
    check(item, "a table is either an array or has string keys, not both");
  }
}

std::string_view string_at(lua_State* L, int index) {
  size_t size = 0;
  const char* text = lua_tolstring(L, index, &size);
  return {text, size};
}

void Encoder::encode_object(int table, int depth) {
  std::vector<std::string_view> keys;  // the table keeps the strings
  lua_pushnil(L);
  while (lua_next(L, table) != 0) {
    lua_pop(L, 1);
    check(lua_type(L, -1) == LUA_TSTRING, "a key of an object must be a string, got a ",
          luaL_typename(L, -1));
    keys.push_back(string_at(L, -1));
  }
  std::sort(keys.begin(), keys.end());
  out.begin_object();
  for (const std::string_view key : keys) {
    out.key(key);
    lua_pushlstring(L, key.data(), key.size());
    lua_rawget(L, table);
    encode(lua_gettop(L), depth + 1);
    lua_pop(L, 1);
  }
  out.end_object();
}

bool is_empty_array(lua_State* L, int table) {
  lua_pushvalue(L, table);
  const bool marked = lua_rawget(L, kArrays) != LUA_TNIL;
  lua_pop(L, 1);
  if (!marked) return false;
  lua_pushnil(L);
  if (lua_next(L, table) == 0) return true;
  lua_pop(L, 2);
  return false;
}

void Encoder::encode_table(int table, int depth) {
  if (lua_rawequal(L, table, kNull) != 0) return out.null();
  if (lua_getmetatable(L, table) != 0) fail("a table with a metatable has no JSON form");
  check(depth <= io::kMaxJsonDepth, "the value nests too deeply or contains itself");
  luaL_checkstack(L, 5, "a deep JSON value");
  if (lua_rawlen(L, table) > 0 || is_empty_array(L, table))
    encode_array(table, depth);
  else
    encode_object(table, depth);
}

void Encoder::encode_number(double value) {
  if (std::isfinite(value) || options_.nan == NoNumber::kFail) return out.number(value);
  if (options_.nan == NoNumber::kNull) return out.null();
  out.literal(std::isnan(value) ? "NaN" : value > 0 ? "Infinity" : "-Infinity");
}

void Encoder::encode(int index, int depth) {
  switch (lua_type(L, index)) {
    case LUA_TBOOLEAN: return out.boolean(lua_toboolean(L, index) != 0);
    case LUA_TSTRING: return out.string(string_at(L, index));
    case LUA_TTABLE: return encode_table(index, depth);
    case LUA_TNUMBER:
      if (lua_isinteger(L, index)) return out.integer(lua_tointeger(L, index));
      return encode_number(lua_tonumber(L, index));
    default:
      if (test_tensor(L, index) != nullptr)
        fail("a tensor has no JSON form; x:tolist() is a table of its elements");
      fail("a ", luaL_typename(L, index), " has no JSON form");
  }
}

// Checks that the options at `index` are nil or a table with no other names.
bool check_options(lua_State* L, int index, const char* what, std::span<const char* const> names) {
  if (lua_isnoneornil(L, index)) return false;
  check(lua_type(L, index) == LUA_TTABLE, what, ": options are a table, got a ",
        luaL_typename(L, index));
  lua_pushnil(L);
  while (lua_next(L, index) != 0) {
    lua_pop(L, 1);
    const std::string key = luaL_tolstring(L, -1, nullptr);
    lua_pop(L, 1);
    if (std::none_of(names.begin(), names.end(), [&](const char* name) { return key == name; }))
      fail(what, ": unknown option '", key, "'", did_you_mean(key, names));
  }
  return true;
}

EncodeOptions encode_options(lua_State* L, int index) {
  static constexpr const char* kNames[] = {"indent", "nan"};
  constexpr int kMostSpaces = 16;
  EncodeOptions options;
  if (!check_options(L, index, "json.encode", kNames)) return options;
  if (lua_getfield(L, index, "indent") != LUA_TNIL) {
    const lua_Integer spaces = lua_isinteger(L, -1) ? lua_tointeger(L, -1) : -1;
    check(spaces >= 0 && spaces <= kMostSpaces,
          "json.encode: 'indent' must be an integer from 0 to ", kMostSpaces);
    options.indent = static_cast<int>(spaces);
  }
  if (lua_getfield(L, index, "nan") != LUA_TNIL) {
    const std::string_view name = lua_type(L, -1) == LUA_TSTRING ? string_at(L, -1) : "";
    check(name == "error" || name == "null" || name == "literal",
          "json.encode: 'nan' must be \"error\", \"null\" or \"literal\"");
    options.nan = name == "null"      ? NoNumber::kNull
                  : name == "literal" ? NoNumber::kLiteral
                                      : NoNumber::kFail;
  }
  lua_pop(L, 2);
  return options;
}

// encode(value, options) -> the text of a plain value; keys in alphabetical order, an empty table
// an object unless it is known as an array.
int l_encode(lua_State* L) {
  luaL_checkany(L, 1);
  const EncodeOptions options = encode_options(L, 2);
  GrowingText text(L);
  io::JsonWriter out([&](std::string_view piece) { text.add(piece); }, options.indent);
  try {
    Encoder(L, out, options).encode(1, 1);
  } catch (const OutOfMemory&) {
    throw;
  } catch (const Interrupted&) {
    throw;
  } catch (const Error& e) {
    fail("json: ", e.what());
  }
  text.add(out.take());
  text.push();
  return 1;
}

// decode(text, options or max_bytes) -> the value, which may take so many bytes where they are
// given; errors name the byte.
int l_decode(lua_State* L) {
  static constexpr const char* kNames[] = {"max_bytes", "null"};
  check(lua_type(L, 1) == LUA_TSTRING, "json: a string is expected, got ", luaL_typename(L, 1));
  lua_settop(L, 2);
  lua_Integer most = std::numeric_limits<lua_Integer>::max();
  int null = kNull;
  if (lua_isinteger(L, 2) != 0) {
    most = lua_tointeger(L, 2);
  } else if (check_options(L, 2, "json.decode", kNames)) {
    if (lua_getfield(L, 2, "max_bytes") != LUA_TNIL) {
      check(lua_isinteger(L, -1) != 0 && lua_tointeger(L, -1) > 0,
            "json.decode: 'max_bytes' must be a positive integer");
      most = lua_tointeger(L, -1);
    }
    if (lua_getfield(L, 2, "null") != LUA_TNIL) null = lua_gettop(L);
  }
  TableBuilder builder(L, null);
  io::ReadBudget budget(0, most);
  io::read_json(string_at(L, 1), "json", builder, &budget);
  return 1;
}

// array(table) -> the table, which is an array also while it is empty.
int l_array(lua_State* L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_settop(L, 1);
  lua_pushvalue(L, 1);
  lua_pushboolean(L, 1);
  lua_rawset(L, kArrays);
  return 1;
}

int l_null_text(lua_State* L) {
  lua_pushliteral(L, "null");
  return 1;
}

constexpr luaL_Reg kFunctions[] = {{"encode", guard<l_encode>},
                                   {"decode", guard<l_decode>},
                                   {"array", guard<l_array>},
                                   {nullptr, nullptr}};

}  // namespace
}  // namespace moonlet

int luaopen_moonlet_json(lua_State* L) {
  luaL_newlibtable(L, moonlet::kFunctions);
  lua_newtable(L);
  lua_createtable(L, 0, 1);
  lua_pushcfunction(L, moonlet::l_null_text);
  lua_setfield(L, -2, "__tostring");
  lua_setmetatable(L, -2);
  lua_pushvalue(L, -1);
  lua_setfield(L, -3, "null");
  lua_newtable(L);
  lua_createtable(L, 0, 1);
  lua_pushliteral(L, "k");
  lua_setfield(L, -2, "__mode");
  lua_setmetatable(L, -2);
  luaL_setfuncs(L, moonlet::kFunctions, 2);
  moonlet::make_namespace(L, "json");
  return 1;
}
