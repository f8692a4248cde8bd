// tests/embed/plugin_host.c: a C program with a C-built Lua of its own that opens a plug-in, whose
// path is its argument, from inside a script: as an engine does that scripts in Lua.
#include <dlfcn.h>
#include <lauxlib.h>
#include <lualib.h>
#include <stdio.h>

static int run_plugin(lua_State* L) {
  void* plugin = dlopen(luaL_checkstring(L, 1), RTLD_NOW | RTLD_GLOBAL);
  if (plugin == NULL) return luaL_error(L, "%s", dlerror());
  int (*test)(void) = (int (*)(void))dlsym(plugin, "test_beside_lua");
  if (test == NULL) return luaL_error(L, "%s", dlerror());
  lua_pushinteger(L, test());
  dlclose(plugin);
  return 1;
}

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  lua_State* L = luaL_newstate();
  luaL_openlibs(L);
  lua_register(L, "run_plugin", run_plugin);
  lua_pushstring(L, argv[1]);
  lua_setglobal(L, "path");
  if (luaL_dostring(L,
                    "local ok, code = pcall(run_plugin, path)\n"
                    "assert(not pcall(error, 'still fine'))\n"
                    "assert(ok, code)\n"
                    "return code") != LUA_OK) {
    printf("FAILED in a plug-in: %s\n", lua_tostring(L, -1));
    return 1;
  }
  int code = (int)lua_tointeger(L, -1);
  lua_close(L);
  return code;
}
