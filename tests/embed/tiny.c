// tests/embed/tiny.c: a C module as LuaRocks builds them: Lua's functions come from the program.
#include <lauxlib.h>
#include <lua.h>

static int fail(lua_State* L) {
  return luaL_error(L, "tiny failed with %d", (int)luaL_checkinteger(L, 1));
}

static int apply(lua_State* L) {
  lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
  return lua_gettop(L);
}

int luaopen_tiny(lua_State* L) {
  static const luaL_Reg kFunctions[] = {{"fail", fail}, {"apply", apply}, {NULL, NULL}};
  luaL_newlib(L, kFunctions);
  return 1;
}
