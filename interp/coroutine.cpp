// interp/coroutine.cpp: coroutine.resume and coroutine.wrap that note which coroutine runs.
#include "interp/coroutine.h"

#include "interp/state.h"

namespace moonlet {
namespace {

class RunningScope {
 public:
  RunningScope(lua_State* L, lua_State* co) : data_(state_data(L)), before_(data_.running) {
    data_.running = co;
  }
  RunningScope(const RunningScope&) = delete;
  RunningScope& operator=(const RunningScope&) = delete;
  ~RunningScope() { data_.running = before_; }

 private:
  StateData& data_;
  lua_State* before_;
};

// Moves `count` arguments to `co`, resumes it and moves its results back. Returns their number, or
// -1 with an error value on top of L.
int resume(lua_State* L, lua_State* co, int count) {
  if (lua_checkstack(co, count) == 0) {
    lua_pushliteral(L, "too many arguments to resume");
    return -1;
  }
  lua_xmove(L, co, count);
  int results = 0;
  int status = LUA_OK;
  {
    RunningScope running(L, co);
    status = lua_resume(co, L, count, &results);
  }
  if (status != LUA_OK && status != LUA_YIELD) {
    lua_xmove(co, L, 1);
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
  luaL_checktype(L, 1, LUA_TTHREAD);
  const int results = resume(L, lua_tothread(L, 1), lua_gettop(L) - 1);
  const bool failed = results < 0;
  lua_pushboolean(L, failed ? 0 : 1);
  const int given = failed ? 1 : results;
  lua_insert(L, -(given + 1));
  return given + 1;
}

int call_wrapped(lua_State* L) {
  lua_State* co = lua_tothread(L, lua_upvalueindex(1));
  const int results = resume(L, co, lua_gettop(L));
  if (results >= 0) return results;
  const int status = lua_status(co);
  if (status != LUA_OK && status != LUA_YIELD) {
    lua_resetthread(co);  // closes its pending variables; may replace the error
    lua_xmove(co, L, 1);
  }
  if (status != LUA_ERRMEM && lua_type(L, -1) == LUA_TSTRING) {
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

}  // namespace

void track_coroutines(lua_State* L) {
  lua_getglobal(L, LUA_COLIBNAME);
  lua_pushcfunction(L, l_resume);
  lua_setfield(L, -2, "resume");
  lua_pushcfunction(L, l_wrap);
  lua_setfield(L, -2, "wrap");
  lua_pop(L, 1);
}

}  // namespace moonlet
