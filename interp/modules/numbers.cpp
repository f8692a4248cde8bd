// interp/modules/numbers.cpp: module moonlet.numbers: functions of Lua, and others, run in the
// locale "C".
#include "interp/modules/modules.h"

#include "interp/state/guard.h"
#include "interp/state/libraries.h"
#include "interp/state/state.h"
#include "tensor/core/error.h"
#include "tensor/io/numbers.h"

namespace moonlet {
namespace {

// Calls the first upvalue with all arguments.
int l_call(lua_State* L) {
  const io::NumericLocaleC numbers;
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_insert(L, 1);
  lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
  return lua_gettop(L);
}

int l_wrap(lua_State* L) {
  luaL_checktype(L, 1, LUA_TFUNCTION);
  lua_settop(L, 1);
  lua_pushcclosure(L, guard<l_call>, 1);
  return 1;
}

// Pushes a library, which scripts may lack, and returns true, or pushes nothing.
bool push_any_library(lua_State* L, const char* name) {
  if (push_library(L, name)) return true;
  if (!push_stdlib_environment(L)) return false;
  lua_getfield(L, -1, name);
  lua_remove(L, -2);
  if (lua_istable(L, -1)) return true;
  lua_pop(L, 1);
  return false;
}

// Sets field `name` of the table on top to the wrapped function of a library.
void wrap_from(lua_State* L, const char* library, const char* name) {
  check(push_any_library(L, library) && lua_getfield(L, -1, name) == LUA_TFUNCTION,
        "moonlet.numbers needs Lua's library '", library, "'");
  lua_pushcclosure(L, guard<l_call>, 1);
  lua_setfield(L, -3, name);
  lua_pop(L, 1);
}

int l_open(lua_State* L) {
  lua_createtable(L, 0, 4);
  wrap_from(L, LUA_STRLIBNAME, "format");
  wrap_from(L, LUA_GNAME, "tostring");
  wrap_from(L, LUA_GNAME, "tonumber");
  lua_pushcfunction(L, guard<l_wrap>);
  lua_setfield(L, -2, "wrap");
  return 1;
}

}  // namespace
}  // namespace moonlet

int luaopen_moonlet_numbers(lua_State* L) { return moonlet::guard<moonlet::l_open>(L); }
