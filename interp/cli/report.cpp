// interp/cli/report.cpp: protected calls with tracebacks.
#include "interp/cli/report.h"

#include <cstdio>

#include "interp/state/blame.h"
#include "interp/state/interrupt.h"

namespace moonlet {

int add_traceback(lua_State* L) {
  lua_settop(L, 1);
  blame_script(L, L);
  const char* message = lua_tostring(L, 1);
  if (message == nullptr) {
    if (luaL_callmeta(L, 1, "__tostring") != 0 && lua_type(L, -1) == LUA_TSTRING) {
      message = lua_tostring(L, -1);
    } else {
      message = lua_pushfstring(L, "(error object is a %s value)", luaL_typename(L, 1));
    }
  }
  luaL_traceback(L, L, message, 1);
  return 1;
}

int call_interruptible(lua_State* L, int arguments, int results) {
  const int base = lua_gettop(L) - arguments;
  lua_pushcfunction(L, add_traceback);
  lua_insert(L, base);
  int status = LUA_OK;
  {
    InterruptScope scope(L);
    status = lua_pcall(L, arguments, results, base);
  }
  lua_remove(L, base);
  return status;
}

void report_error(lua_State* L, const std::string& prefix) {
  const char* message = lua_tostring(L, -1);
  std::fflush(stdout);
  std::string text = prefix.empty() ? "" : prefix + ": ";
  text += message != nullptr ? message : "(error object is not a string)";
  text += '\n';
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
  lua_pop(L, 1);
}

}  // namespace moonlet
