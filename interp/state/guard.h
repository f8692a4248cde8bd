// interp/state/guard.h: the one guard at every C function: C++ exceptions become Lua errors.
// Lua itself is built as C++ and throws a private type, which passes through untouched.
#pragma once

#include <cstring>
#include <exception>
#include <new>

#include "lua.hpp"

#include "interp/embed/call_scope.h"

namespace moonlet {

// Finds the innermost script line, skipping C functions and the embedded standard library, so that
// what happens deep in a layer is put down to the line its user wrote. False when no Lua code runs.
inline bool find_where(lua_State* L, lua_Debug& info) {
  constexpr int kMaxDepth = 64;
  for (int level = 1; level <= kMaxDepth && lua_getstack(L, level, &info) != 0; ++level) {
    lua_getinfo(L, "Sl", &info);
    if (info.currentline > 0 && std::strncmp(info.source, "@stdlib/", 8) != 0) return true;
  }
  return false;
}

// Pushes "file:line: " of that line, or "" when no Lua code is running.
inline void push_where(lua_State* L) {
  lua_Debug info;
  if (find_where(L, info))
    lua_pushfstring(L, "%s:%d: ", info.short_src, info.currentline);
  else
    luaL_where(L, 1);
}

// Offered by interp/state/run_limits.cpp.
void note_exception(lua_State* L, const std::exception& e) noexcept;

// Pushes the Lua error value for a C++ exception: its message, or `message` where it is not null,
// with the script's position in front.
inline void push_exception(lua_State* L, const std::exception& e, const char* message = nullptr) {
  lua_settop(L, 0);  // makes room whatever the function had pushed
  note_exception(L, e);
  if (dynamic_cast<const std::bad_alloc*>(&e) != nullptr) {
    lua_pushliteral(L, "not enough memory");
    return;
  }
  push_where(L);
  lua_pushstring(L, message != nullptr ? message : e.what());
  lua_concat(L, 2);
}

// Wraps a C function: `{"name", guard<l_name>}`. An exception leaves as a Lua error with the
// script's position; std::bad_alloc as "not enough memory".
template <lua_CFunction f>
int guard(lua_State* L) {
  try {
    const CallScope scope(L);
    return f(L);
  } catch (const std::exception& e) {
    push_exception(L, e);
  }
  return lua_error(L);  // outside the handler: the C++ exception is destroyed by now
}

}  // namespace moonlet
