// interp/state/namespace.cpp: the __index of namespaces.
#include "interp/state/namespace.h"

#include <string>
#include <vector>

#include "interp/state/guard.h"
#include "interp/state/nearest.h"
#include "tensor/core/error.h"

namespace moonlet {
namespace {

void add_names(lua_State* L, int table, std::vector<const char*>& names) {
  if (lua_type(L, table) != LUA_TTABLE) return;
  lua_pushnil(L);
  while (lua_next(L, table) != 0) {
    lua_pop(L, 1);
    if (lua_type(L, -1) == LUA_TSTRING && *lua_tostring(L, -1) != '_')
      names.push_back(lua_tostring(L, -1));  // the table keeps the strings
  }
}

// Pushes the value of the key at index 2 when the late names at `late` have it: a field of its
// module, or the module itself when that has no such field. From then on it is in the table.
bool push_late(lua_State* L, int late) {
  if (lua_type(L, late) != LUA_TTABLE) return false;
  lua_getglobal(L, "require");
  lua_pushvalue(L, 2);
  if (lua_rawget(L, late) == LUA_TNIL) {
    lua_pop(L, 2);
    return false;
  }
  lua_call(L, 1, 1);
  lua_pushvalue(L, 2);
  if (lua_istable(L, -2) && lua_rawget(L, -2) != LUA_TNIL)
    lua_remove(L, -2);
  else
    lua_pop(L, 1);
  lua_pushvalue(L, 2);
  lua_pushvalue(L, -2);
  lua_rawset(L, 1);
  return true;
}

// Upvalues: the name of the namespace and its late names. What asks for a metamethod gets none.
int l_index(lua_State* L) {
  lua_settop(L, 2);
  const int late = lua_upvalueindex(2);
  if (push_late(L, late)) return 1;
  const std::string key = luaL_tolstring(L, 2, nullptr);
  if (key.starts_with("__")) return 0;
  std::vector<const char*> names;
  add_names(L, 1, names);
  add_names(L, late, names);
  fail(lua_tostring(L, lua_upvalueindex(1)), " has no field '", key, "'", did_you_mean(key, names));
}

// Upvalue: the late names, which a walk over the namespace loads.
int l_pairs(lua_State* L) {
  lua_settop(L, 1);
  lua_pushnil(L);
  while (lua_next(L, lua_upvalueindex(1)) != 0) {
    lua_pop(L, 1);
    lua_pushvalue(L, -1);
    lua_gettable(L, 1);
    lua_pop(L, 1);
  }
  lua_getglobal(L, "next");
  lua_pushvalue(L, 1);
  lua_pushnil(L);
  return 3;
}

// Upvalues: the name of the namespace and its late names.
int l_tostring(lua_State* L) {
  lua_settop(L, 1);
  lua_getglobal(L, "require");
  lua_pushliteral(L, "moonlet.repl.names");
  lua_call(L, 1, 1);
  lua_getfield(L, -1, "text");
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_pushvalue(L, 1);
  lua_pushvalue(L, lua_upvalueindex(2));
  lua_call(L, 3, 1);
  return 1;
}

int l_namespace(lua_State* L) {
  const char* name = luaL_checkstring(L, 1);
  luaL_checktype(L, 2, LUA_TTABLE);
  lua_settop(L, 3);
  const bool late = lua_istable(L, 3);
  lua_pushvalue(L, 2);
  if (late) lua_pushvalue(L, 3);
  make_namespace(L, name, late);
  return 1;
}

}  // namespace

void make_namespace(lua_State* L, const char* name, bool late) {
  luaL_checkstack(L, 6, "namespace");
  if (!late) lua_pushnil(L);
  if (lua_getmetatable(L, -2) == 0) lua_createtable(L, 0, late ? 4 : 2);
  if (late) {
    lua_pushvalue(L, -2);
    lua_pushcclosure(L, guard<l_pairs>, 1);
    lua_setfield(L, -2, "__pairs");
    lua_pushvalue(L, -2);
    lua_setfield(L, -2, "late");
  }
  lua_pushstring(L, name);
  lua_rotate(L, -3, -1);
  lua_pushvalue(L, -2);
  lua_pushvalue(L, -2);
  lua_pushcclosure(L, guard<l_tostring>, 2);
  lua_insert(L, -3);
  lua_pushcclosure(L, guard<l_index>, 2);
  lua_setfield(L, -3, "__index");
  lua_setfield(L, -2, "__tostring");
  lua_setmetatable(L, -2);
}

}  // namespace moonlet

int luaopen_moonlet_namespace(lua_State* L) {
  lua_pushcfunction(L, moonlet::guard<moonlet::l_namespace>);
  return 1;
}
