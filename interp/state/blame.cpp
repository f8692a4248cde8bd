// interp/state/blame.cpp: finds the script's line for errors of the standard library.
#include "interp/state/blame.h"

#include <cctype>
#include <cstring>
#include <string_view>

#include "interp/state/guard.h"

namespace moonlet {
namespace {

// The length of "stdlib/nn/linear.lua:12: " at the front of a message, or 0.
size_t library_position(std::string_view message) {
  constexpr std::string_view kFolder = "stdlib/", kLine = ".lua:";
  if (!message.starts_with(kFolder)) return 0;
  const size_t line = message.find(kLine);
  if (line == message.npos || message.substr(0, line).find_first_of(" \n") != message.npos)
    return 0;
  size_t at = line + kLine.size();
  while (at < message.size() && std::isdigit(static_cast<unsigned char>(message[at])) != 0) ++at;
  return message.substr(at).starts_with(": ") ? at + 2 : 0;
}

// Whether a C function that the library called failed, other than `error`: Lua puts no position
// before what such a function says about its arguments' metamethods. `level` is that of what
// failed.
bool failed_below_library(lua_State* L, int level) {
  lua_Debug info;
  if (lua_checkstack(L, 3) == 0 || lua_getstack(L, level, &info) == 0) return false;
  lua_getinfo(L, "Sf", &info);
  lua_getglobal(L, "error");
  const bool native = *info.what == 'C' && lua_rawequal(L, -1, -2) == 0;
  lua_pop(L, 2);
  if (!native || lua_getstack(L, level + 1, &info) == 0) return false;
  lua_getinfo(L, "S", &info);
  return std::strncmp(info.source, "@stdlib/", 8) == 0;
}

// Whether a message begins with a position, as in "train.lua:3: ".
bool has_position(std::string_view message) {
  const size_t end = message.find(": ");
  if (end == message.npos || end == 0) return false;
  const size_t colon = message.rfind(':', end - 1);
  if (colon == message.npos || colon + 1 == end) return false;
  return message.substr(colon + 1, end - colon - 1).find_first_not_of("0123456789") == message.npos;
}

int handle(lua_State* L) {
  lua_settop(L, 1);
  blame_script(L, L);
  return 1;
}

// Stack: the handler, true and the results, or the handler and two values with the error on top.
int finish(lua_State* L, int status, lua_KContext) {
  if (status == LUA_OK || status == LUA_YIELD) return lua_gettop(L) - 1;
  lua_pushboolean(L, 0);
  lua_insert(L, -2);
  return 2;
}

int l_pcall(lua_State* L) {
  luaL_checkany(L, 1);
  lua_pushcfunction(L, handle);
  lua_insert(L, 1);
  lua_pushboolean(L, 1);
  lua_insert(L, 2);
  return finish(L, lua_pcallk(L, lua_gettop(L) - 3, LUA_MULTRET, 1, 0, finish), 0);
}

}  // namespace

void blame_script(lua_State* L, lua_State* raised) {
  if (lua_type(L, -1) != LUA_TSTRING) return;
  size_t length = 0;
  const char* message = lua_tolstring(L, -1, &length);
  const size_t position = library_position({message, length});
  lua_Debug info;
  const bool library = position > 0 || (!has_position({message, length}) &&
                                        failed_below_library(raised, raised == L ? 1 : 0));
  if (!library || lua_checkstack(L, 4) == 0) return;
  // A coroutine may have begun in the library: its script is who resumed it.
  if (!find_where(raised, info) && !find_where(L, info)) return;
  lua_pushfstring(L, "%s:%d: ", info.short_src, info.currentline);
  lua_pushlstring(L, message + position, length - position);
  lua_concat(L, 2);
  lua_replace(L, -2);
}

void catch_in_pcall(lua_State* L) {
  lua_pushcfunction(L, l_pcall);
  lua_setglobal(L, "pcall");
}

}  // namespace moonlet
