// interp/binding/tensor_userdata.cpp: making, checking, comparing and dropping tensor userdata,
// and paying the collector for the memory behind them.
#include "interp/binding/tensor_userdata.h"

#include <new>

#include "interp/binding/homes.h"
#include "interp/host_state.h"

namespace moonlet {

using binding::binding_state;

// A state that moves to another thread starts a new count.
void binding::pay_collector(lua_State* L, BindingState& state) {
  const int64_t allocated = thread_allocated_bytes();
  const int64_t fresh = allocated - state.paid_bytes;
  if (fresh == 0) return;
  state.paid_bytes = allocated;
  if (fresh > 0) memory::allocated(L, fresh);
}

namespace {

void note_in_scope(lua_State* L, BindingState& state) {
  lua_rawgeti(L, LUA_REGISTRYINDEX, state.scope_ref);
  lua_pushvalue(L, -2);
  lua_rawseti(L, -2, ++state.scope_count);
  lua_pop(L, 1);
}

}  // namespace

void push_tensor(lua_State* L, Tensor tensor) {
  if (!tensor.defined()) {
    lua_pushnil(L);
    return;
  }
  if (host_states) [[unlikely]]
    admit(L);
  BindingState& state = binding_state(L);
  if (state.tensor_metatable == nullptr) {
    luaL_requiref(L, "moonlet", luaopen_moonlet, 0);
    lua_pop(L, 1);
  }
  binding::pay_collector(L, state);
  luaL_checkstack(L, 4, "too many results");
  new (lua_newuserdatauv(L, sizeof(Tensor), 0)) Tensor(std::move(tensor));
  lua_rawgeti(L, LUA_REGISTRYINDEX, state.metatable_ref);
  lua_setmetatable(L, -2);
  if (state.scope_ref != 0) [[unlikely]]
    note_in_scope(L, state);
}

const Tensor* test_tensor(lua_State* L, int index) {
  if (host_states && find_state_data(L) == nullptr) return nullptr;
  const Tensor* cell = binding::tensor_cell(L, index);
  return cell != nullptr && cell->defined() ? cell : nullptr;
}

namespace binding {
namespace {

int l_gc(lua_State* L) {
  Tensor* cell = tensor_cell(L, 1);
  if (cell == nullptr) return 0;
  if (binding_state(L).homes != 0 && keep_tensor(L, *cell)) return 0;
  *cell = Tensor();
  return 0;
}

int l_close(lua_State* L) {
  if (Tensor* cell = tensor_cell(L, 1)) *cell = Tensor();
  return 0;
}

// Two handles on one tensor are equal; elements are compared by `:eq`.
int l_equal(lua_State* L) {
  const Tensor* a = tensor_cell(L, 1);
  const Tensor* b = tensor_cell(L, 2);
  lua_pushboolean(L, a != nullptr && b != nullptr && a->defined() && a->is_same(*b));
  return 1;
}

int l_length(lua_State* L) {
  const Tensor& x = check_tensor(L, 1, "#");
  check(x.dim() > 0, "#: a tensor of no dimensions has no length");
  lua_pushinteger(L, x.size(0));
  return 1;
}

int l_tostring(lua_State* L) {
  const Tensor* cell = tensor_cell(L, 1);
  check(cell != nullptr, "tostring: Tensor expected, got ", type_name(L, 1));
  const std::string text = cell->defined() ? format_tensor(*cell) : "Tensor (freed)";
  lua_pushlstring(L, text.data(), text.size());
  return 1;
}

int l_shape_tostring(lua_State* L) {
  std::string out = "(";
  const lua_Integer count = luaL_len(L, 1);
  for (lua_Integer i = 1; i <= count; ++i) {
    if (i > 1) out += ", ";
    lua_geti(L, 1, i);
    out += luaL_tolstring(L, -1, nullptr);
    lua_pop(L, 2);
  }
  out += count == 1 ? ",)" : ")";
  lua_pushlstring(L, out.data(), out.size());
  return 1;
}

int l_shape_equal(lua_State* L) {
  const lua_Integer count = luaL_len(L, 1);
  bool same = count == luaL_len(L, 2);
  for (lua_Integer i = 1; same && i <= count; ++i) {
    lua_geti(L, 1, i);
    lua_geti(L, 2, i);
    same = lua_compare(L, -1, -2, LUA_OPEQ) != 0;
    lua_pop(L, 2);
  }
  lua_pushboolean(L, same);
  return 1;
}

void make_shape_metatable(lua_State* L) {
  lua_createtable(L, 0, 3);
  lua_pushcfunction(L, guard<l_shape_tostring>);
  lua_setfield(L, -2, "__tostring");
  lua_pushcfunction(L, guard<l_shape_equal>);
  lua_setfield(L, -2, "__eq");
  lua_pushliteral(L, "Shape");
  lua_setfield(L, -2, "__name");
  binding_state(L).shape_ref = luaL_ref(L, LUA_REGISTRYINDEX);
}

}  // namespace

Tensor& check_tensor(lua_State* L, int index, const char* op) {
  Tensor* cell = tensor_cell(L, index);
  if (cell == nullptr) fail(op, ": a tensor is wanted, got ", type_name(L, index));
  if (!cell->defined()) fail(op, ": the tensor has been freed");
  return *cell;
}

void push_new_metatable(lua_State* L) {
  static const luaL_Reg kMetamethods[] = {
      {"__gc", guard<l_gc>},      {"__close", guard<l_close>},       {"__eq", guard<l_equal>},
      {"__len", guard<l_length>}, {"__tostring", guard<l_tostring>}, {nullptr, nullptr}};
  make_shape_metatable(L);
  lua_createtable(L, 0, 32);
  luaL_setfuncs(L, kMetamethods, 0);
  lua_pushliteral(L, "Tensor");
  lua_setfield(L, -2, "__name");
  // Scripts cannot reach the metatable, so none can break the type check.
  lua_pushliteral(L, "Tensor");
  lua_setfield(L, -2, "__metatable");
  BindingState& state = binding_state(L);
  lua_pushvalue(L, -1);
  state.metatable_ref = luaL_ref(L, LUA_REGISTRYINDEX);
  state.tensor_metatable = lua_topointer(L, -1);
}

int push_result(lua_State* L, Tensor tensor) {
  push_tensor(L, std::move(tensor));
  return 1;
}

int push_items(lua_State* L, int index, int count) {
  for (int i = 1; i <= count; ++i) lua_geti(L, index, i);
  return count;
}

int push_result(lua_State* L, const std::vector<Tensor>& tensors) {
  lua_createtable(L, static_cast<int>(tensors.size()), 0);
  for (size_t i = 0; i < tensors.size(); ++i) {
    push_tensor(L, tensors[i]);
    lua_rawseti(L, -2, static_cast<lua_Integer>(i + 1));
  }
  return 1;
}

int push_result(lua_State* L, const Scalar& scalar) {
  switch (scalar.kind()) {
    case Scalar::Kind::Bool: lua_pushboolean(L, scalar.to_bool()); break;
    case Scalar::Kind::Int: lua_pushinteger(L, scalar.to_int()); break;
    case Scalar::Kind::Float: lua_pushnumber(L, scalar.to_double()); break;
    default: {
      // Lua has no complex numbers: a pair that says what it is.
      lua_createtable(L, 0, 2);
      lua_pushnumber(L, scalar.to_complex().real());
      lua_setfield(L, -2, "real");
      lua_pushnumber(L, scalar.to_complex().imag());
      lua_setfield(L, -2, "imag");
    }
  }
  return 1;
}

int push_result(lua_State* L, bool value) {
  lua_pushboolean(L, value);
  return 1;
}

int push_result(lua_State* L, int64_t value) {
  lua_pushinteger(L, value);
  return 1;
}

int push_result(lua_State* L, double value) {
  lua_pushnumber(L, value);
  return 1;
}

void push_shape(lua_State* L, Dims dims) {  // NOLINT(performance-unnecessary-value-param)
  lua_createtable(L, dims.size(), 0);
  for (int i = 0; i < dims.size(); ++i) {
    lua_pushinteger(L, dims[i]);
    lua_rawseti(L, -2, i + 1);
  }
  lua_rawgeti(L, LUA_REGISTRYINDEX, binding_state(L).shape_ref);
  lua_setmetatable(L, -2);
}

const char* type_name(lua_State* L, int index) {
  if (const Tensor* cell = tensor_cell(L, index))
    return cell->defined() ? "Tensor" : "freed Tensor";
  if (lua_type(L, index) == LUA_TUSERDATA && luaL_getmetafield(L, index, "__name") != LUA_TNIL) {
    const char* name = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : nullptr;
    lua_pop(L, 1);
    if (name != nullptr) return name;  // the metatable keeps it
  }
  return luaL_typename(L, index);
}

int retry_after_collection(lua_State* L, int top, lua_CFunction f) {
  lua_settop(L, top);
  memory::collect(L);
  return f(L);
}

void set_functions(lua_State* L, int index, const luaL_Reg* functions) {
  lua_pushvalue(L, index);
  luaL_setfuncs(L, functions, 0);
  lua_pop(L, 1);
}

}  // namespace binding
}  // namespace moonlet
