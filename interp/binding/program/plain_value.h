// interp/binding/program/plain_value.h: a Lua value by kind and bits, for comparing it later with
// what stands in its place then.
#pragma once

#include <bit>
#include <cstdint>

#include "interp/binding/tensor/tensor_userdata.h"

namespace moonlet::binding {

struct PlainValue {
  // Object: a table, function, coroutine or userdata, by address; Tensor: by the address of its
  // TensorImpl. A string has its address too: Lua keeps short ones once.
  enum class Kind : uint8_t { Nil, False, True, Integer, Number, String, Object, Tensor };
  Kind kind = Kind::Nil;
  uint64_t bits = 0;
  bool operator==(const PlainValue&) const = default;
};

inline PlainValue plain_value(lua_State* L, int index) {
  using Kind = PlainValue::Kind;
  const auto address = [](const void* p) {
    return static_cast<uint64_t>(std::bit_cast<uintptr_t>(p));
  };
  switch (lua_type(L, index)) {
    case LUA_TNIL: return {};
    case LUA_TBOOLEAN: return {lua_toboolean(L, index) != 0 ? Kind::True : Kind::False, 0};
    case LUA_TNUMBER:
      if (lua_isinteger(L, index) != 0)
        return {Kind::Integer, static_cast<uint64_t>(lua_tointeger(L, index))};
      return {Kind::Number, std::bit_cast<uint64_t>(lua_tonumber(L, index))};
    case LUA_TSTRING: return {Kind::String, address(lua_topointer(L, index))};
    case LUA_TUSERDATA:
      if (const TensorCell* cell = marked_cell(L, index))
        return {Kind::Tensor, address(cell->tensor.impl())};
      return {Kind::Object, address(lua_topointer(L, index))};
    default: return {Kind::Object, address(lua_topointer(L, index))};
  }
}

// Whether the value at a stack index is that one, which has no address of its own.
inline bool is_value_without_address(lua_State* L, int index, const PlainValue& value) {
  using Kind = PlainValue::Kind;
  switch (value.kind) {
    case Kind::Integer:
      return lua_isinteger(L, index) != 0 &&
             static_cast<uint64_t>(lua_tointeger(L, index)) == value.bits;
    case Kind::True:
    case Kind::False:
      return lua_type(L, index) == LUA_TBOOLEAN &&
             (lua_toboolean(L, index) != 0) == (value.kind == Kind::True);
    case Kind::Number:
      return lua_type(L, index) == LUA_TNUMBER && lua_isinteger(L, index) == 0 &&
             std::bit_cast<uint64_t>(lua_tonumber(L, index)) == value.bits;
    default: return plain_value(L, index) == value;
  }
}

// Whether the value at a stack index is that one: as a comparison of `plain_value`, in fewer calls.
[[gnu::always_inline]] inline bool is_value(lua_State* L, int index, const PlainValue& value) {
  if (value.kind == PlainValue::Kind::String || value.kind == PlainValue::Kind::Object) [[likely]]
    return std::bit_cast<uintptr_t>(lua_topointer(L, index)) == value.bits;
  return is_value_without_address(L, index, value);
}

}  // namespace moonlet::binding
