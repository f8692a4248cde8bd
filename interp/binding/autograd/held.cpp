// interp/binding/autograd/held.cpp: how values that the tape holds are reached from wherever it
// runs.
#include "interp/binding/autograd/held.h"

#include "autograd/tape.h"

namespace moonlet::binding {

std::string where_now(lua_State* L) {
  luaL_checkstack(L, 4, "calls nest too deeply");
  push_where(L);
  std::string where = lua_tostring(L, -1);
  lua_pop(L, 1);
  if (where.ends_with(": ")) where.resize(where.size() - 2);
  return where;
}

HeldValue::HeldValue(lua_State* L, int index) : releases_(state_data(L).releases) {
  luaL_checkstack(L, 4, "the tape holds too many values");
  lua_pushvalue(L, index);
  reference_ = luaL_ref(L, LUA_REGISTRYINDEX);
}

bool HeldValue::push(lua_State* L) const {
  if (state_data(L).releases != releases_) return false;
  lua_rawgeti(L, LUA_REGISTRYINDEX, reference_);
  return true;
}

void HeldValue::run(lua_State* L, const std::function<void(lua_State*)>& f) const {
  luaL_checkstack(L, 8, "functions that the tape calls nest too deeply");
  const int top = lua_gettop(L);
  lua_rawgeti(L, LUA_REGISTRYINDEX, reference_);
  f(L);
  lua_settop(L, top);
}

struct HeldValue::Call {
  const HeldValue& value;
  const std::function<void(lua_State*)>& f;
};

int HeldValue::run_call(lua_State* L) {
  const auto& call = *static_cast<Call*>(lua_touserdata(L, 1));
  call.value.run(L, call.f);
  return 0;
}

void HeldValue::with(const std::string& what, const std::function<void(lua_State*)>& f) const {
  StateData* data = entered_state(*releases_);
  if (data == nullptr || data->closing) {
    const bool elsewhere = data == nullptr && releases_->is_open();
    fail(what, " belongs to an interpreter that ",
         elsewhere ? "does not run on this thread" : "was closed");
  }
  const bool innermost = is_innermost(*data), mode = grad_enabled();
  const EntryScope entry(*data);
  lua_State* L = data->running ? data->running : data->main_thread;
  if (innermost) return run(L, f);
  // Another interpreter runs the tape: an error of this one must not cross its frames as such.
  const GradModeGuard same(mode);
  Call call{*this, f};
  luaL_checkstack(L, 4, "functions that the tape calls nest too deeply");
  lua_pushcfunction(L, guard<run_call>);
  lua_pushlightuserdata(L, &call);
  if (lua_pcall(L, 1, 0, 0) == LUA_OK) return;
  const char* message = lua_tostring(L, -1);
  const std::string said = message != nullptr ? message : what + ": an error that is no string";
  lua_pop(L, 1);
  throw Error(said);
}

}  // namespace moonlet::binding
