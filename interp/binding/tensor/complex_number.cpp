// interp/binding/tensor/complex_number.cpp: complex numbers as Lua values.
#include "interp/binding/tensor/complex_number.h"

#include <cmath>

#include "interp/state/nearest.h"

namespace moonlet::binding {
namespace {

// A complex or a plain number.
std::optional<complex128> number_at(lua_State* L, int index) {
  if (lua_type(L, index) == LUA_TNUMBER) return complex128(lua_tonumber(L, index), 0);
  return complex_at(L, index);
}

complex128 check_complex(lua_State* L, int index, const char* name) {
  const std::optional<complex128> value = complex_at(L, index);
  if (!value) fail(name, ": a complex number is expected, got ", type_name(L, index));
  return *value;
}

complex128 add(complex128 a, complex128 b) { return a + b; }
complex128 sub(complex128 a, complex128 b) { return a - b; }
complex128 mul(complex128 a, complex128 b) { return a * b; }
complex128 div(complex128 a, complex128 b) { return a / b; }
complex128 pow(complex128 a, complex128 b) { return b == 0.0 ? 1.0 : std::pow(a, b); }

constexpr char kAdd[] = "__add", kSub[] = "__sub", kMul[] = "__mul", kDiv[] = "__div",
               kPow[] = "__pow";

// With a tensor on either side the operator is the tensor's.
template <complex128 (*f)(complex128, complex128), const char* event>
int l_arithmetic(lua_State* L) {
  for (int i = 1; i <= 2; ++i) {
    if (tensor_cell(L, i) == nullptr) continue;
    luaL_getmetafield(L, i, event);
    lua_insert(L, 1);
    lua_call(L, 2, 1);
    return 1;
  }
  const std::optional<complex128> a = number_at(L, 1), b = number_at(L, 2);
  if (!a || !b) {
    fail("complex: ", event + 2, " takes numbers and tensors, got ", type_name(L, 1), " and ",
         type_name(L, 2));
  }
  push_complex(L, f(*a, *b));
  return 1;
}

int l_minus(lua_State* L) {
  push_complex(L, -check_complex(L, 1, "complex"));
  return 1;
}

int l_equal(lua_State* L) {
  const std::optional<complex128> a = complex_at(L, 1), b = complex_at(L, 2);
  return push_result(L, a && b && *a == *b);
}

int l_tostring(lua_State* L) {
  return push_string(L, text(Scalar(check_complex(L, 1, "tostring"))));
}

int l_concat(lua_State* L) {
  for (int i = 1; i <= 2; ++i) {
    if (!complex_at(L, i) && !lua_isstring(L, i))
      fail("..: strings and numbers are joined with a complex number, got ", type_name(L, i));
    luaL_tolstring(L, i, nullptr);
    lua_replace(L, i);
  }
  lua_settop(L, 2);
  lua_concat(L, 2);
  return 1;
}

int l_abs(lua_State* L) { return push_result(L, std::abs(check_complex(L, 1, "abs"))); }

int l_angle(lua_State* L) { return push_result(L, std::arg(check_complex(L, 1, "angle"))); }

int l_conj(lua_State* L) {
  push_complex(L, std::conj(check_complex(L, 1, "conj")));
  return 1;
}

// Upvalue: the methods.
int l_index(lua_State* L) {
  const complex128 value = check_complex(L, 1, "complex");
  lua_pushvalue(L, 2);
  if (lua_rawget(L, lua_upvalueindex(1)) != LUA_TNIL) return 1;
  const std::string key = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : type_name(L, 2);
  if (key == "real") return push_result(L, value.real());
  if (key == "imag") return push_result(L, value.imag());
  const char* const kNames[] = {"real", "imag", "abs", "angle", "conj"};
  fail("a complex number has no field or method '", key, "'", did_you_mean(key, kNames));
}

}  // namespace

void push_complex(lua_State* L, complex128 value) {
  // Longer than its two doubles, whose bits a script can choose: of another size than a tensor's.
  constexpr size_t kSize = sizeof(complex128) + sizeof(double);
  static_assert(kSize != sizeof(TensorCell));
  luaL_checkstack(L, 3, "too many results");
  *static_cast<complex128*>(lua_newuserdatauv(L, kSize, 0)) = value;
  lua_rawgeti(L, LUA_REGISTRYINDEX, binding_state(L).complex_ref);
  lua_setmetatable(L, -2);
}

std::optional<complex128> complex_at(lua_State* L, int index) {
  if (lua_type(L, index) != LUA_TUSERDATA || lua_getmetatable(L, index) == 0) return std::nullopt;
  const void* metatable = lua_topointer(L, -1);
  lua_pop(L, 1);
  if (metatable != binding_state(L).complex_metatable) return std::nullopt;
  return *static_cast<const complex128*>(lua_touserdata(L, index));
}

void register_complex(lua_State* L) {
  static const luaL_Reg kMetamethods[] = {{"__add", guard<l_arithmetic<add, kAdd>>},
                                          {"__sub", guard<l_arithmetic<sub, kSub>>},
                                          {"__mul", guard<l_arithmetic<mul, kMul>>},
                                          {"__div", guard<l_arithmetic<div, kDiv>>},
                                          {"__pow", guard<l_arithmetic<pow, kPow>>},
                                          {"__unm", guard<l_minus>},
                                          {"__eq", guard<l_equal>},
                                          {"__concat", guard<l_concat>},
                                          {"__tostring", guard<l_tostring>},
                                          {nullptr, nullptr}};
  static const luaL_Reg kMethods[] = {{"abs", guard<l_abs>},
                                      {"angle", guard<l_angle>},
                                      {"conj", guard<l_conj>},
                                      {nullptr, nullptr}};
  luaL_newlib(L, kMetamethods);
  luaL_newlib(L, kMethods);
  lua_pushcclosure(L, guard<l_index>, 1);
  lua_setfield(L, -2, "__index");
  lua_pushliteral(L, "complex number");
  lua_setfield(L, -2, "__name");
  // Scripts cannot reach the metatable, so none can break the type check.
  lua_pushliteral(L, "complex number");
  lua_setfield(L, -2, "__metatable");
  binding_state(L).complex_metatable = lua_topointer(L, -1);
  binding_state(L).complex_ref = luaL_ref(L, LUA_REGISTRYINDEX);
}

}  // namespace moonlet::binding
