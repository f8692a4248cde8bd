// interp/namespace.cpp: the __index of namespaces.
#include "interp/namespace.h"

#include <string>
#include <vector>

#include "interp/guard.h"
#include "interp/nearest.h"
#include "tensor/error.h"

namespace moonlet {
namespace {

// Upvalue: the name of the namespace. What asks for a metamethod gets none.
int l_unknown(lua_State* L) {
  const std::string key = luaL_tolstring(L, 2, nullptr);
  if (key.starts_with("__")) return 0;
  std::vector<const char*> names;  // the table keeps the strings
  lua_pushnil(L);
  while (lua_type(L, 1) == LUA_TTABLE && lua_next(L, 1) != 0) {
    lua_pop(L, 1);
    if (lua_type(L, -1) == LUA_TSTRING && *lua_tostring(L, -1) != '_')
      names.push_back(lua_tostring(L, -1));
  }
  fail(lua_tostring(L, lua_upvalueindex(1)), " has no field '", key, "'", did_you_mean(key, names));
}

int l_namespace(lua_State* L) {
  const char* name = luaL_checkstring(L, 1);
  luaL_checktype(L, 2, LUA_TTABLE);
  lua_settop(L, 2);
  make_namespace(L, name);
  return 1;
}

}  // namespace

void make_namespace(lua_State* L, const char* name) {
  luaL_checkstack(L, 4, "namespace");
  if (lua_getmetatable(L, -1) == 0) lua_createtable(L, 0, 1);
  lua_pushstring(L, name);
  lua_pushcclosure(L, guard<l_unknown>, 1);
  lua_setfield(L, -2, "__index");
  lua_setmetatable(L, -2);
}

}  // namespace moonlet

int luaopen_moonlet_namespace(lua_State* L) {
  lua_pushcfunction(L, moonlet::guard<moonlet::l_namespace>);
  return 1;
}
