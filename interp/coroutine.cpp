// interp/coroutine.cpp: coroutine.resume and coroutine.wrap that note which coroutine runs
// and keep the modes that it puts on the stack its own.
#include "interp/coroutine.h"

#include <new>

#include "interp/guard.h"
#include "interp/state.h"
#include "tensor/modes.h"

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

// One per interpreter: from a coroutine to the modes it had on the stack when it yielded.
constexpr char kSuspended = 0;
constexpr const char* kSuspendedName = "moonlet.suspended_modes";

int l_end_suspended(lua_State* L) {
  static_cast<SuspendedModes*>(luaL_checkudata(L, 1, kSuspendedName))->~SuspendedModes();
  return 0;
}

// Pushes the table of the suspended modes, with weak keys.
void push_suspended(lua_State* L) {
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &kSuspended) == LUA_TTABLE) return;
  lua_pop(L, 1);
  lua_newtable(L);
  lua_createtable(L, 0, 1);
  lua_pushliteral(L, "k");
  lua_setfield(L, -2, "__mode");
  lua_setmetatable(L, -2);
  lua_pushvalue(L, -1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &kSuspended);
}

void push_coroutine(lua_State* L, lua_State* co) {
  luaL_checkstack(co, 1, "too many values in a coroutine");
  lua_pushthread(co);
  if (co != L) lua_xmove(co, L, 1);
}

void take_modes(lua_State* L, lua_State* co, SuspendedModes& into) {
  push_suspended(L);
  push_coroutine(L, co);
  lua_rawget(L, -2);
  if (void* held = lua_touserdata(L, -1)) into.swap(*static_cast<SuspendedModes*>(held));
  lua_pop(L, 2);
}

void keep_modes(lua_State* L, lua_State* co, SuspendedModes& from) {
  if (from.empty()) return;
  push_suspended(L);
  push_coroutine(L, co);
  auto* const held = new (lua_newuserdatauv(L, sizeof(SuspendedModes), 0)) SuspendedModes;
  if (luaL_newmetatable(L, kSuspendedName)) {
    lua_pushcfunction(L, guard<l_end_suspended>);
    lua_setfield(L, -2, "__gc");
  }
  lua_setmetatable(L, -2);
  held->swap(from);
  lua_rawset(L, -3);
  lua_pop(L, 1);
}

// Resumes `co` with its own modes on top of those of the caller.
int resume_with_modes(lua_State* L, lua_State* co, int count, int* results) {
  luaL_checkstack(L, 8, "too many coroutines");
  SuspendedModes own;
  int status = LUA_OK;
  take_modes(L, co, own);
  {
    const ResumedModes resumed(own);
    status = lua_resume(co, L, count, results);
  }
  keep_modes(L, co, own);
  return status;
}

// Moves `count` arguments to `co`, resumes it and moves its results back. Returns their number, or
// -1 with an error value on top of L.
int resume(lua_State* L, lua_State* co, int count) {
  if (lua_checkstack(co, count + 1) == 0) {
    lua_pushliteral(L, "too many arguments to resume");
    return -1;
  }
  lua_xmove(L, co, count);
  int results = 0;
  int status = LUA_OK;
  {
    RunningScope running(L, co);
    status = resume_with_modes(L, co, count, &results);
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
