// interp/binding/device/memory.cpp: ml.memory, which counts and gives back tensor memory, and
// ml.scope.
#include "interp/binding/arg_reader.h"
#include "interp/state/namespace.h"
#include "tensor/memory/live_peak.h"
#include "tensor/runtime/backend.h"

namespace moonlet::binding {
namespace {

int end_scope(lua_State* L, int status, lua_KContext before) {
  if (thread_allocated_bytes() != before) gc::collect(L);
  return status == LUA_OK || status == LUA_YIELD ? lua_gettop(L) : lua_error(L);
}

// Runs a function and then collects all garbage, so that what it made and nothing refers to any
// more is freed at once, after an error too. What is still reachable stays, whoever holds it.
int l_scope(lua_State* L) {
  check(is_callable(L, 1), "scope: a function is expected, got ", type_name(L, 1));
  const lua_KContext before = thread_allocated_bytes();
  const int arguments = lua_gettop(L) - 1;
  return end_scope(L, lua_pcallk(L, arguments, LUA_MULTRET, 0, before, end_scope), before);
}

int l_live_bytes(lua_State* L) { return push_result(L, live_bytes()); }

int l_held_bytes(lua_State* L) { return push_result(L, held_bytes()); }

int l_peak_bytes(lua_State* L) { return push_result(L, peak_held_bytes()); }

int l_reset_peak(lua_State* L) {
  static_cast<void>(L);
  reset_peak_bytes();
  return 0;
}

// Calls a function; returns the most bytes that were live meanwhile, then the function's results.
int l_peak_live_bytes(lua_State* L) {
  check(is_callable(L, 1), "peak_live_bytes: a function is expected, got ", type_name(L, 1));
  const memory::LivePeak peak;
  lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
  luaL_checkstack(L, 1, "too many results");
  lua_pushinteger(L, peak.bytes());
  lua_insert(L, 1);
  return lua_gettop(L);
}

int l_collect(lua_State* L) {
  gc::collect(L);
  return 0;
}

int l_empty_cache(lua_State* L) {
  allocator_for(DeviceType::CPU).empty_cache();
  for (const DeviceType type : device_types())
    if (type != DeviceType::CPU && backend_of(type) != nullptr) allocator_for(type).empty_cache();
  static_cast<void>(L);
  return 0;
}

}  // namespace

void register_memory(lua_State* L) {
  static const luaL_Reg kMemory[] = {
      {"live_bytes", guard<l_live_bytes>},           {"held_bytes", guard<l_held_bytes>},
      {"peak_bytes", guard<l_peak_bytes>},           {"reset_peak", guard<l_reset_peak>},
      {"peak_live_bytes", guard<l_peak_live_bytes>}, {"collect", guard<l_collect>},
      {"empty_cache", guard<l_empty_cache>},         {nullptr, nullptr}};
  luaL_newlib(L, kMemory);
  make_namespace(L, "memory");
  lua_setfield(L, -3, "memory");
  static const luaL_Reg kModule[] = {{"scope", guard<l_scope>}, {nullptr, nullptr}};
  set_functions(L, -2, kModule);
}

}  // namespace moonlet::binding
