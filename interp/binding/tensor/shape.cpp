// interp/binding/tensor/shape.cpp: shapes: their metatable. The sizes lie as bytes in a string
// under one key that scripts cannot name, so every read and write of a position goes by a
// metamethod.
#include "interp/binding/tensor/shape.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "interp/binding/arg_reader.h"
#include "interp/state/nearest.h"
#include "tensor/shapes/window.h"

namespace moonlet::binding {
namespace {

constexpr char kSizes = 0;  // its address is the key

Dims check_shape(lua_State* L, int index, const char* what) {
  const std::optional<Dims> dims = shape_at(L, index);
  if (!dims) fail(what, ": a shape is expected, got ", type_name(L, index));
  return *dims;
}

void push_list(lua_State* L, const Dims& dims) {
  lua_createtable(L, dims.size(), 0);
  for (int i = 0; i < dims.size(); ++i) {
    lua_pushinteger(L, dims[i]);
    lua_rawseti(L, -2, i + 1);
  }
}

int l_numel(lua_State* L) {
  int64_t count = 1;
  for (const int64_t size : check_shape(L, 1, "numel")) count *= size;
  return push_result(L, count);
}

int l_tolist(lua_State* L) {
  push_list(L, check_shape(L, 1, "tolist"));
  return 1;
}

// An end of a range over `count` sizes: the one in the list at index 2, from 1 or from the end.
int64_t range_end(lua_State* L, int position, int64_t usual, int64_t count) {
  lua_rawgeti(L, 2, position);
  const std::optional<int64_t> given = whole_number(L, -1);
  if (!given && !lua_isnil(L, -1))
    fail("shape: a range is { first, last, step } of integers, got ", type_name(L, -1));
  lua_pop(L, 1);
  if (!given) return usual;
  check(*given != 0, "shape: positions start at 1, got a range with 0");
  return *given < 0 ? count + 1 + *given : *given;
}

// The sizes of a range of positions, both ends included: x.shape[{ 2, -1 }]; ends beyond the shape
// are those of the shape.
int push_range(lua_State* L, const Dims& dims) {
  const int64_t count = dims.size();
  const auto given = static_cast<int64_t>(lua_rawlen(L, 2));
  check(given <= 3, "shape: a range is { first, last, step }, got ", given, " numbers");
  lua_rawgeti(L, 2, 3);
  const int64_t step = lua_isnil(L, -1) ? 1 : whole_number(L, -1).value_or(0);
  check(step >= 1, "shape: the step of a range must be an integer of at least 1");
  const int64_t first = std::max<int64_t>(range_end(L, 1, 1, count), 1);
  const int64_t last = std::min(range_end(L, 2, count, count), count);
  Dims out;
  for (int64_t i = first; i <= last; i += step) out.push_back(dims[static_cast<int>(i) - 1]);
  push_shape(L, out);
  return 1;
}

// Upvalue: the methods.
int l_index(lua_State* L) {
  const Dims dims = check_shape(L, 1, "shape");
  if (lua_type(L, 2) == LUA_TSTRING) {
    lua_pushvalue(L, 2);
    if (lua_rawget(L, lua_upvalueindex(1)) != LUA_TNIL) return 1;
    const char* const kNames[] = {"numel", "tolist", "totable"};
    const std::string_view name = lua_tostring(L, 2);
    fail("a shape has no method '", name, "'", did_you_mean(name, kNames));
  }
  if (lua_type(L, 2) == LUA_TTABLE && !shape_at(L, 2)) return push_range(L, dims);
  const std::optional<int64_t> position = whole_number(L, 2);
  if (!position) fail("shape: a position is an integer, got ", type_name(L, 2));
  const int64_t count = dims.size();
  if (*position == 0) fail("shape[0]: positions start at 1");
  if (*position < -count)
    fail("shape[", *position, "]: the shape ", dims, " has ", count, " sizes");
  // Behind the end is nil, as in any list.
  if (*position > count) return 0;
  return push_result(L, dims[*position > 0 ? *position - 1 : *position + count]);
}

int l_newindex(lua_State*) {
  fail(
      "shape: the sizes of a tensor are not changed by assignment; use view, reshape or resize_, "
      "or x.shape:tolist() for a list of your own");
}

int l_length(lua_State* L) {
  return push_result(L, static_cast<int64_t>(check_shape(L, 1, "#").size()));
}

// A shape equals any list of the same sizes.
int l_equal(lua_State* L) {
  const lua_Integer count = luaL_len(L, 1);
  bool same = count == luaL_len(L, 2);
  for (lua_Integer i = 1; same && i <= count; ++i) {
    lua_geti(L, 1, i);
    lua_geti(L, 2, i);
    same = lua_compare(L, -1, -2, LUA_OPEQ) != 0;
    lua_pop(L, 2);
  }
  return push_result(L, same);
}

// Appends the sizes of the shape, list of integers or integer at an index.
void append_sizes(lua_State* L, int index, Dims& to, const char* op) {
  if (lua_type(L, index) != LUA_TTABLE)
    return to.push_back(integer_argument(L, index, op, "a size"));
  push_plain_list(L, index);
  const auto count = static_cast<int64_t>(lua_rawlen(L, -1));
  for (int64_t i = 1; i <= count; ++i) {
    lua_rawgeti(L, -1, i);
    to.push_back(integer_argument(L, -1, op, "a size"));
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
}

// The sizes of both, a list or a shape each, one after the other, as those of PyTorch's tuples.
int l_add(lua_State* L) {
  for (int i = 1; i <= 2; ++i)
    if (lua_type(L, i) != LUA_TTABLE)
      fail("shape: + joins shapes and lists of sizes, got ", type_name(L, i));
  Dims out;
  for (int i = 1; i <= 2; ++i) append_sizes(L, i, out, "shape");
  push_shape(L, out);
  return 1;
}

int l_tostring(lua_State* L) {
  const std::string out = text(check_shape(L, 1, "tostring"));
  lua_pushlstring(L, out.data(), out.size());
  return 1;
}

int l_next(lua_State* L) {
  const lua_Integer i = luaL_checkinteger(L, 2) + 1;
  const Dims dims = check_shape(L, 1, "pairs");
  if (i > dims.size()) return 0;
  lua_pushinteger(L, i);
  lua_pushinteger(L, dims[static_cast<int>(i) - 1]);
  return 2;
}

int l_pairs(lua_State* L) {
  lua_pushcfunction(L, guard<l_next>);
  lua_pushvalue(L, 1);
  lua_pushinteger(L, 0);
  return 3;
}

// Sizes given as shapes, tables or single integers.
int l_broadcast_shapes(lua_State* L) {
  Dims out;
  for (int i = 1; i <= lua_gettop(L); ++i) {
    Dims sizes;
    append_sizes(L, i, sizes, "broadcast_shapes");
    for (int64_t size : sizes)
      check(size >= 0, "broadcast_shapes: sizes cannot be negative, got ", sizes);
    out = broadcast(out, sizes, "broadcast_shapes");
  }
  push_shape(L, out);
  return 1;
}

// _same_padding(kernel, dilation) -> before, after: what padding "same" adds to a dimension.
int l_same_padding(lua_State* L) {
  const auto [before, after] =
      shapes::same_padding("same_padding", luaL_checkinteger(L, 1), luaL_checkinteger(L, 2));
  lua_pushinteger(L, before);
  lua_pushinteger(L, after);
  return 2;
}

}  // namespace

std::optional<Dims> shape_at(lua_State* L, int index) {
  if (lua_type(L, index) != LUA_TTABLE) return std::nullopt;
  if (lua_rawgetp(L, index, &kSizes) != LUA_TSTRING) {
    lua_pop(L, 1);
    return std::nullopt;
  }
  size_t length = 0;
  const char* bytes = lua_tolstring(L, -1, &length);
  Dims dims;
  for (size_t at = 0; at + sizeof(int64_t) <= length; at += sizeof(int64_t)) {
    int64_t size = 0;
    std::memcpy(&size, bytes + at, sizeof(size));
    dims.push_back(size);
  }
  lua_pop(L, 1);
  return dims;
}

void push_shape(lua_State* L, Dims dims) {  // NOLINT(performance-unnecessary-value-param)
  lua_createtable(L, 0, 1);
  lua_pushlstring(L, reinterpret_cast<const char*>(dims.begin()), dims.size() * sizeof(int64_t));
  lua_rawsetp(L, -2, &kSizes);
  lua_rawgeti(L, LUA_REGISTRYINDEX, binding_state(L).shape_ref);
  lua_setmetatable(L, -2);
}

void push_plain_list(lua_State* L, int index) {
  if (const std::optional<Dims> dims = shape_at(L, index))
    push_list(L, *dims);
  else
    lua_pushvalue(L, index);
}

void register_shapes(lua_State* L) {
  static const luaL_Reg kMetamethods[] = {
      {"__newindex", guard<l_newindex>}, {"__len", guard<l_length>},
      {"__eq", guard<l_equal>},          {"__add", guard<l_add>},
      {"__tostring", guard<l_tostring>}, {"__concat", guard<concat>},
      {"__pairs", guard<l_pairs>},       {nullptr, nullptr}};
  static const luaL_Reg kMethods[] = {{"numel", guard<l_numel>},
                                      {"tolist", guard<l_tolist>},
                                      {"totable", guard<l_tolist>},
                                      {nullptr, nullptr}};
  luaL_newlib(L, kMetamethods);
  luaL_newlib(L, kMethods);
  lua_pushcclosure(L, guard<l_index>, 1);
  lua_setfield(L, -2, "__index");
  for (const char* field : {"__name", "__metatable"}) {
    lua_pushliteral(L, "Shape");
    lua_setfield(L, -2, field);
  }
  binding_state(L).shape_ref = luaL_ref(L, LUA_REGISTRYINDEX);
}

void register_shape_functions(lua_State* L) {
  static const luaL_Reg kModule[] = {{"broadcast_shapes", guard<l_broadcast_shapes>},
                                     {"_same_padding", guard<l_same_padding>},
                                     {nullptr, nullptr}};
  set_functions(L, -2, kModule);
}

}  // namespace moonlet::binding
