// interp/binding/grad_mode.cpp: no_grad, enable_grad and set_grad_enabled, as calls of a function
// and as guards that end with a block.
#include "autograd/tape.h"
#include "interp/binding/arg_reader.h"
#include "interp/entry.h"

namespace moonlet::binding {
namespace {

constexpr const char* kGuardName = "moonlet.grad_mode";

// The value of a guard. Its mode has ended when `record` is null.
struct ModeGuard {
  ModeRecord* record = nullptr;
  bool stays = false;  // dropped without <close>, the mode stays what it is
};

ModeGuard& guard_at(lua_State* L, int index) {
  return *static_cast<ModeGuard*>(luaL_checkudata(L, index, kGuardName));
}

int l_guard_close(lua_State* L) {
  if (ModeRecord* record = std::exchange(guard_at(L, 1).record, nullptr))
    end_mode(state_data(L), record);
  return 0;
}

int l_guard_gc(lua_State* L) {
  ModeGuard& self = guard_at(L, 1);
  ModeRecord* record = std::exchange(self.record, nullptr);
  if (record == nullptr) return 0;
  if (self.stays)
    forget_mode(record);
  else
    drop_mode(L, record);
  return 0;
}

// Sets the mode and pushes its guard.
void push_guard(lua_State* L, bool mode, bool stays) {
  push_where(L);
  std::string where = lua_tostring(L, -1);
  lua_pop(L, 1);
  auto* self = new (lua_newuserdatauv(L, sizeof(ModeGuard), 0)) ModeGuard{nullptr, stays};
  if (luaL_newmetatable(L, kGuardName) != 0) {
    static const luaL_Reg kMetamethods[] = {
        {"__close", guard<l_guard_close>}, {"__gc", guard<l_guard_gc>}, {nullptr, nullptr}};
    luaL_setfuncs(L, kMetamethods, 0);
    lua_pushliteral(L, "grad mode guard");
    lua_setfield(L, -2, "__metatable");
  }
  lua_setmetatable(L, -2);
  self->record = begin_mode(state_data(L), mode, std::move(where));
}

int finish_call(lua_State* L, int, lua_KContext) { return lua_gettop(L) - 1; }

// Calls the function at 1 with the arguments behind it under the mode, which ends with the call:
// the guard is below as a variable to be closed. The function may yield.
int call_with_mode(lua_State* L, bool mode) {
  push_guard(L, mode, false);
  lua_insert(L, 1);
  lua_toclose(L, 1);
  lua_callk(L, lua_gettop(L) - 2, LUA_MULTRET, 0, finish_call);
  return finish_call(L, LUA_OK, 0);
}

// `ml.no_grad(f, ...)`, or `local _ <close> = ml.no_grad()`.
int grad_mode(lua_State* L, const char* op, bool mode) {
  if (lua_isfunction(L, 1)) return call_with_mode(L, mode);
  if (lua_gettop(L) > 0) {
    fail(op, ": use ", op, "(f, ...) or `local _ <close> = ml.", op, "()`, got ", type_name(L, 1));
  }
  push_guard(L, mode, false);
  return 1;
}

int l_no_grad(lua_State* L) { return grad_mode(L, "no_grad", false); }

int l_enable_grad(lua_State* L) { return grad_mode(L, "enable_grad", true); }

int l_set_grad_enabled(lua_State* L) {
  check(lua_isboolean(L, 1), "set_grad_enabled: true or false is wanted, got ", type_name(L, 1));
  push_guard(L, lua_toboolean(L, 1) != 0, true);
  return 1;
}

int l_is_grad_enabled(lua_State* L) { return push_result(L, grad_enabled()); }

}  // namespace

void register_grad_mode(lua_State* L) {
  static const luaL_Reg kModule[] = {{"no_grad", guard<l_no_grad>},
                                     {"enable_grad", guard<l_enable_grad>},
                                     {"set_grad_enabled", guard<l_set_grad_enabled>},
                                     {"is_grad_enabled", guard<l_is_grad_enabled>},
                                     {nullptr, nullptr}};
  set_functions(L, -2, kModule);
}

}  // namespace moonlet::binding
