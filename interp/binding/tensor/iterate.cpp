// interp/binding/tensor/iterate.cpp: the ends of loops over tensors and storages.
#include "interp/binding/tensor/iterate.h"

#include "interp/binding/tensor/tensor_userdata.h"

namespace moonlet::binding {
namespace {

// A step of `pairs`: (x, i) -> i + 1, x[i + 1].
int l_step(lua_State* L) {
  const lua_Integer i = luaL_checkinteger(L, 2) + 1;
  if (i > luaL_len(L, 1)) return 0;
  lua_pushinteger(L, i);
  lua_geti(L, 1, i);
  return 2;
}

}  // namespace

void register_iteration(lua_State* L) {
  const int top = lua_gettop(L);
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  lua_getfield(L, -1, "_G");
  if (lua_istable(L, -1) && lua_getfield(L, -1, "ipairs") == LUA_TFUNCTION) {
    lua_newtable(L);
    lua_call(L, 1, 1);
    binding_state(L).ipairs_step = lua_tocfunction(L, -1);
  }
  lua_settop(L, top);
}

bool called_by_ipairs(lua_State* L) {
  lua_Debug caller;
  if (lua_getstack(L, 1, &caller) == 0) return false;
  lua_getinfo(L, "f", &caller);
  const bool is_step = lua_tocfunction(L, -1) == binding_state(L).ipairs_step;
  lua_pop(L, 1);
  return is_step;
}

int push_positions(lua_State* L) {
  lua_pushcfunction(L, guard<l_step>);
  lua_pushvalue(L, 1);
  lua_pushinteger(L, 0);
  return 3;
}

}  // namespace moonlet::binding
