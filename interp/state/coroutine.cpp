// interp/state/coroutine.cpp: coroutine.resume, wrap and close that keep a state for each
// coroutine.
#include "interp/state/coroutine.h"

#include "interp/embed/call_scope.h"
#include "interp/state/blame.h"
#include "interp/state/entry.h"
#include "interp/state/state.h"

namespace moonlet {
namespace {

// Moves `count` arguments to `co`, resumes it and moves its results back. Returns their number, or
// -1 with an error value on top of L.
int resume(lua_State* L, lua_State* co, int count) {
  luaL_checkstack(L, 6, "too many arguments to resume");
  if (lua_checkstack(co, count + 1) == 0) {
    lua_pushliteral(L, "too many arguments to resume");
    return -1;
  }
  int results = 0;
  int status = LUA_OK;
  {
    std::optional<CoroutineScope> scope;
    try {
      scope.emplace(L, co);
    } catch (const Error& e) {
      lua_pushstring(L, e.what());
      return -1;
    }
    lua_xmove(L, co, count);
    status = lua_resume(co, L, count, &results);
  }
  if (status != LUA_OK && status != LUA_YIELD) {
    lua_xmove(co, L, 1);
    blame_script(L, co);
    return -1;
  }
  if (lua_checkstack(L, results + 1) == 0) {
    lua_pop(co, results);
    lua_pushliteral(L, "too many results to resume");
    return -1;
  }
  lua_xmove(co, L, results);
  return results;
}

int l_resume(lua_State* L) {
  const CallScope call(L);
  luaL_checktype(L, 1, LUA_TTHREAD);
  const int results = resume(L, lua_tothread(L, 1), lua_gettop(L) - 1);
  const bool failed = results < 0;
  lua_pushboolean(L, failed ? 0 : 1);
  const int given = failed ? 1 : results;
  lua_insert(L, -(given + 1));
  return given + 1;
}

// Whether the message stands for an exception of the host, which is known by it.
bool is_carried(lua_State* L, int index) {
  const CarriedExceptions& carried = state_data(L).carried;
  if (carried.empty()) return false;
  size_t size = 0;
  const char* text = lua_tolstring(L, index, &size);
  return carried.find({text, size}) != nullptr;
}

int call_wrapped(lua_State* L) {
  const CallScope call(L);
  lua_State* co = lua_tothread(L, lua_upvalueindex(1));
  const int results = resume(L, co, lua_gettop(L));
  if (results >= 0) return results;
  const int status = lua_status(co);
  if (status != LUA_OK && status != LUA_YIELD) {
    luaL_checkstack(L, 6, "too many arguments to resume");
    const CoroutineScope scope(L, co);
    lua_resetthread(co);  // closes its pending variables; may replace the error
    lua_xmove(co, L, 1);
  }
  if (status != LUA_ERRMEM && lua_type(L, -1) == LUA_TSTRING && !is_carried(L, -1)) {
    luaL_where(L, 1);
    lua_insert(L, -2);
    lua_concat(L, 2);
  }
  return lua_error(L);
}

int l_wrap(lua_State* L) {
  luaL_checktype(L, 1, LUA_TFUNCTION);
  lua_State* co = lua_newthread(L);
  lua_pushvalue(L, 1);
  lua_xmove(L, co, 1);
  lua_pushcclosure(L, call_wrapped, 1);
  return 1;
}

// The pending variables of the coroutine are closed in its own state. Upvalue: Lua's function.
int l_close(lua_State* L) {
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_insert(L, 1);
  lua_State* co = lua_tothread(L, 2);
  // Lua's function refuses what is no coroutine or runs.
  if (co == nullptr || co == L) {
    lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
    return lua_gettop(L);
  }
  luaL_checkstack(L, 6, "too many arguments to close");
  const CallScope call(L);
  std::optional<CoroutineScope> scope;
  enter_coroutine(scope, L, co);
  lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
  return lua_gettop(L);
}

}  // namespace

void track_coroutines(lua_State* L) {
  prepare_coroutine_states(L);
  if (!push_library(L, LUA_COLIBNAME)) return;
  lua_pushcfunction(L, l_resume);
  lua_setfield(L, -2, "resume");
  lua_pushcfunction(L, l_wrap);
  lua_setfield(L, -2, "wrap");
  lua_getfield(L, -1, "close");
  lua_pushcclosure(L, l_close, 1);
  lua_setfield(L, -2, "close");
  lua_pop(L, 1);
}

}  // namespace moonlet
