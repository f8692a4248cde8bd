// interp/private_lua/check_destructors.cpp: run at configure time: does a Lua error run C++
// destructors?
#include "lua.hpp"

namespace {

bool destroyed = false;

struct Witness {
  ~Witness() { destroyed = true; }
};

int fail(lua_State* L) {
  const Witness witness;
  return luaL_error(L, "on purpose");
}

}  // namespace

int main() {
  lua_State* L = luaL_newstate();
  lua_pushcfunction(L, fail);
  const int status = lua_pcall(L, 0, 0, 0);
  lua_close(L);
  return status == LUA_ERRRUN && destroyed ? 0 : 1;
}
