// tests/embed/hidden_lua.cpp: a program whose Lua is inside it and not shown: module `moonlet`,
// whose path is its argument, is bound to another copy, and must say so.
#include <dlfcn.h>
#include <cstdio>
#include <cstring>

#include <lua.hpp>

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  void* module = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  auto open = module != nullptr ? reinterpret_cast<lua_CFunction>(dlsym(module, "luaopen_moonlet"))
                                : nullptr;
  if (open == nullptr) {
    std::printf("FAILED: %s\n", dlerror());
    return 1;
  }
  lua_State* L = luaL_newstate();
  luaL_openlibs(L);
  lua_pushcfunction(L, open);
  const bool refused = lua_pcall(L, 0, 1, 0) == LUA_ERRRUN;
  const char* message = lua_tostring(L, -1);
  const bool good = refused && message != nullptr && std::strstr(message, "belongs to the one in");
  if (!good)
    std::printf("FAILED with a hidden Lua: %s\n", message != nullptr ? message : "accepted");
  lua_close(L);
  return good ? 0 : 1;
}
