// interp/json.cpp: module moonlet.json: JSON texts from plain Lua values and back.
#include "interp/json.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "interp/guard.h"
#include "interp/namespace.h"
#include "tensor/interrupt.h"
#include "tensor/io/json.h"
#include "tensor/io/read_budget.h"

namespace moonlet {
namespace {

constexpr int kNull = lua_upvalueindex(1);

// A text that grows as a Lua value, so that it counts in the script's memory while it does. Takes a
// place of the stack.
class GrowingText {
 public:
  explicit GrowingText(lua_State* L) : L_(L) {
    lua_pushnil(L);
    place_ = lua_gettop(L);
  }
  void add(std::string_view piece) {
    stop_if_requested();
    if (size_ + piece.size() > room_) {
      const size_t room = std::max(2 * room_, size_ + piece.size());
      auto* const moved = static_cast<char*>(lua_newuserdatauv(L_, room, 0));
      std::copy_n(data_, size_, moved);
      lua_replace(L_, place_);
      data_ = moved;
      room_ = room;
    }
    std::copy(piece.begin(), piece.end(), data_ + size_);
    size_ += piece.size();
  }
  void push() const { lua_pushlstring(L_, data_, size_); }

 private:
  lua_State* L_;
  int place_;
  char* data_ = nullptr;
  size_t size_ = 0, room_ = 0;
};

// Makes Lua values: what is finished goes into the table below it on the stack.
class TableBuilder : public io::JsonHandler {
 public:
  explicit TableBuilder(lua_State* L) : L_(L) {}

  void null() override {
    lua_pushvalue(L_, kNull);
    place();
  }
  void boolean(bool value) override {
    lua_pushboolean(L_, value);
    place();
  }
  void integer(int64_t value) override {
    lua_pushinteger(L_, value);
    place();
  }
  void number(double value) override {
    lua_pushnumber(L_, value);
    place();
  }
  void string(std::string value) override {
    lua_pushlstring(L_, value.data(), value.size());
    place();
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
    levels_.pop_back();
    place();
  }
  void place() {
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
  std::vector<Level> levels_;
  int64_t placed_ = 0;
};

void encode(lua_State* L, int index, io::JsonWriter& out, int depth);

void encode_array(lua_State* L, int table, io::JsonWriter& out, int depth) {
  const lua_Integer count = static_cast<lua_Integer>(lua_rawlen(L, table));
  out.begin_array();
  for (lua_Integer i = 1; i <= count; ++i) {
    lua_rawgeti(L, table, i);
    encode(L, lua_gettop(L), out, depth + 1);
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

void encode_object(lua_State* L, int table, io::JsonWriter& out, int depth) {
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
    encode(L, lua_gettop(L), out, depth + 1);
    lua_pop(L, 1);
  }
  out.end_object();
}

void encode_table(lua_State* L, int table, io::JsonWriter& out, int depth) {
  if (lua_rawequal(L, table, kNull) != 0) return out.null();
  if (lua_getmetatable(L, table) != 0) fail("a table with a metatable has no JSON form");
  check(depth <= io::kMaxJsonDepth, "the value nests too deeply or contains itself");
  luaL_checkstack(L, 5, "a deep JSON value");
  if (lua_rawlen(L, table) > 0)
    encode_array(L, table, out, depth);
  else
    encode_object(L, table, out, depth);
}

void encode(lua_State* L, int index, io::JsonWriter& out, int depth) {
  switch (lua_type(L, index)) {
    case LUA_TBOOLEAN: return out.boolean(lua_toboolean(L, index) != 0);
    case LUA_TSTRING: return out.string(string_at(L, index));
    case LUA_TTABLE: return encode_table(L, index, out, depth);
    case LUA_TNUMBER:
      if (lua_isinteger(L, index)) return out.integer(lua_tointeger(L, index));
      return out.number(lua_tonumber(L, index));
    default: fail("a ", luaL_typename(L, index), " has no JSON form");
  }
}

// encode(value) -> the text of a plain value; keys in alphabetical order, an empty table an object.
int l_encode(lua_State* L) {
  luaL_checkany(L, 1);
  GrowingText text(L);
  io::JsonWriter out([&](std::string_view piece) { text.add(piece); });
  try {
    encode(L, 1, out, 1);
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

// decode(text, max_bytes) -> the value, which may take so many bytes where they are given; errors
// name the byte.
int l_decode(lua_State* L) {
  check(lua_type(L, 1) == LUA_TSTRING, "json: a string is wanted, got ", luaL_typename(L, 1));
  TableBuilder builder(L);
  io::ReadBudget budget(0, luaL_optinteger(L, 2, std::numeric_limits<lua_Integer>::max()));
  io::read_json(string_at(L, 1), "json", builder, &budget);
  return 1;
}

int l_null_text(lua_State* L) {
  lua_pushliteral(L, "null");
  return 1;
}

constexpr luaL_Reg kFunctions[] = {
    {"encode", guard<l_encode>}, {"decode", guard<l_decode>}, {nullptr, nullptr}};

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
  luaL_setfuncs(L, moonlet::kFunctions, 1);
  moonlet::make_namespace(L, "json");
  return 1;
}
