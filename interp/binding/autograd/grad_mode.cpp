// interp/binding/autograd/grad_mode.cpp: no_grad, enable_grad and set_grad_enabled, as calls of a
// function and as guards that end with a block.
#include "autograd/tape.h"
#include "interp/binding/arg_reader.h"
#include "interp/state/entry.h"

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
void push_guard(lua_State* L, RecordingMode mode, bool stays) {
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
int call_with_mode(lua_State* L, RecordingMode mode) {
  push_guard(L, mode, false);
  lua_insert(L, 1);
  lua_toclose(L, 1);
  lua_callk(L, lua_gettop(L) - 2, LUA_MULTRET, 0, finish_call);
  return finish_call(L, LUA_OK, 0);
}

// `ml.no_grad(f, ...)`, or `local _ <close> = ml.no_grad()`.
int recording_mode(lua_State* L, const char* op, RecordingMode mode) {
  if (is_callable(L, 1)) return call_with_mode(L, mode);
  if (lua_gettop(L) > 0) {
    fail(op, ": use ", op, "(f, ...) or `local _ <close> = ml.", op, "()`, got ", type_name(L, 1));
  }
  push_guard(L, mode, false);
  return 1;
}

RecordingMode grad_mode(bool on) { return {on, execution.inference_mode}; }

int l_no_grad(lua_State* L) { return recording_mode(L, "no_grad", grad_mode(false)); }

int l_enable_grad(lua_State* L) { return recording_mode(L, "enable_grad", grad_mode(true)); }

int l_set_grad_enabled(lua_State* L) {
  check(lua_isboolean(L, 1), "set_grad_enabled: true or false is expected, got ", type_name(L, 1));
  const bool on = lua_toboolean(L, 1) != 0;
  if (lua_gettop(L) > 1) {
    lua_remove(L, 1);
    return recording_mode(L, "set_grad_enabled", grad_mode(on));
  }
  push_guard(L, grad_mode(on), true);
  return 1;
}

int l_is_grad_enabled(lua_State* L) { return push_result(L, grad_enabled()); }

// `inference_mode(f, ...)`, `inference_mode(true or false, f, ...)`; the mode off is that of
// recording, whatever is around it.
int l_inference_mode(lua_State* L) {
  bool on = true;
  if (lua_isboolean(L, 1)) {
    on = lua_toboolean(L, 1) != 0;
    lua_remove(L, 1);
  }
  return recording_mode(L, "inference_mode", {!on, on});
}

int l_is_inference_mode_enabled(lua_State* L) { return push_result(L, execution.inference_mode); }

int l_is_inference(lua_State* L) {
  return push_result(L, check_tensor(L, 1, "is_inference").storage().is_inference());
}

}  // namespace

void register_grad_mode(lua_State* L) {
  static const luaL_Reg kModule[] = {
      {"no_grad", guard<l_no_grad>},
      {"enable_grad", guard<l_enable_grad>},
      {"set_grad_enabled", guard<l_set_grad_enabled>},
      {"is_grad_enabled", guard<l_is_grad_enabled>},
      {"inference_mode", guard<l_inference_mode>},
      {"is_inference_mode_enabled", guard<l_is_inference_mode_enabled>},
      {nullptr, nullptr}};
  static const luaL_Reg kMethods[] = {{"is_inference", guard<l_is_inference>}, {nullptr, nullptr}};
  set_functions(L, -2, kModule);
  set_functions(L, -1, kMethods);
}

}  // namespace moonlet::binding
