// interp/binding/autograd/modes.cpp: modes that scripts put on the stack, and autocast. The
// functions that people call are in stdlib/modes.lua.
#include "interp/binding/autograd/mode_guard.h"
#include "interp/binding/autograd/transforms.h"
#include "interp/binding/defined_ops.h"

#include <new>

#include "autograd/autocast.h"

namespace moonlet::binding {
namespace {

constexpr const char* kGuardName = "moonlet.mode";

struct ModeGuard {
  ModeGuard(std::shared_ptr<Mode> mode, const char* made_by, std::string line)
      : holder(std::move(mode)), function(made_by), where(std::move(line)) {}

  ModeHolder holder;
  const char* function;
  std::string where;  // "file:line: "
};

int l_close(lua_State* L) {
  static_cast<ModeGuard*>(luaL_checkudata(L, 1, kGuardName))->holder.remove();
  return 0;
}

// Leaves an empty guard behind: scripts may find this function and call it before the collector.
int l_collect(lua_State* L) {
  auto* const guard = static_cast<ModeGuard*>(luaL_checkudata(L, 1, kGuardName));
  std::string where;
  where.swap(guard->where);
  if (guard->holder.active()) {
    const std::string message =
        text(where, "ml.", guard->function, ": its value was dropped; write `local _ <close> = ml.",
             guard->function, "...`");
    guard->holder.remove();
    lua_warning(L, message.c_str(), 0);
  }
  return 0;
}

DeviceType device_type(lua_State* L, int index, const char* op) {
  const bool is_text = lua_type(L, index) == LUA_TSTRING;
  if (is_text)
    if (const auto found = find_device_type(lua_tostring(L, index))) return *found;
  std::string known;
  for (const DeviceType type : device_types())
    known += text(known.empty() ? "" : " or ", "\"", name(type), "\"");
  const std::string got = is_text ? text("\"", lua_tostring(L, index), "\"") : type_name(L, index);
  fail(op, ": device must be ", known, ", got ", got);
}

DType default_autocast_dtype(DeviceType device) {
  return device == DeviceType::CPU ? DType::BFloat16 : DType::Float16;
}

// Device type, dtype or nil, enabled.
int l_autocast(lua_State* L) {
  const DeviceType device = device_type(L, 1, "autocast");
  DType dtype = default_autocast_dtype(device);
  if (!lua_isnil(L, 2)) {
    check(lua_type(L, 2) == LUA_TSTRING,
          "autocast: dtype must be a dtype such as ml.bfloat16, got ", type_name(L, 2));
    dtype = dtype_from_name(lua_tostring(L, 2));
  }
  push_mode_guard(L, memory::make_shared<Autocast>(device, dtype, lua_toboolean(L, 3) != 0),
                  "autocast");
  return 1;
}

bool is_on(DeviceType device) {
  const Autocast* mode = current_autocast(device);
  return mode != nullptr && mode->enabled();
}

int l_is_autocast_enabled(lua_State* L) {
  if (lua_isnoneornil(L, 1)) {
    const auto types = device_types();
    return push_result(L, std::any_of(types.begin(), types.end(), is_on));
  }
  return push_result(L, is_on(device_type(L, 1, "is_autocast_enabled")));
}

// The names of all device types, the CPU's first.
int l_device_types(lua_State* L) {
  const auto types = device_types();
  lua_createtable(L, static_cast<int>(types.size()), 0);
  for (size_t i = 0; i < types.size(); ++i) {
    lua_pushstring(L, name(types[i]));
    lua_rawseti(L, -2, static_cast<lua_Integer>(i) + 1);
  }
  return 1;
}

// Device type -> whether a region of autocast is active, its dtype, whether it is enabled.
int l_autocast_state(lua_State* L) {
  const Autocast* mode = current_autocast(device_type(L, 1, "autocast"));
  if (mode == nullptr) return push_result(L, false);
  lua_pushboolean(L, 1);
  push_string(L, name(mode->dtype()));
  lua_pushboolean(L, mode->enabled());
  return 3;
}

// The dtype that autocast casts to on that type of device, or would.
int l_autocast_dtype(lua_State* L) {
  const DeviceType device = device_type(L, 1, "autocast");
  const Autocast* mode = current_autocast(device);
  if (mode != nullptr) return push_string(L, name(mode->dtype()));
  return push_string(L, name(default_autocast_dtype(device)));
}

}  // namespace

void push_mode_guard(lua_State* L, std::shared_ptr<Mode> mode, const char* function) {
  check_room_for_mode(function);
  push_where(L);
  std::string where = lua_tostring(L, -1);
  lua_pop(L, 1);
  void* const cell = lua_newuserdatauv(L, sizeof(ModeGuard), 1);
  // The metatable comes last: only a guard that is made has a finalizer.
  if (luaL_newmetatable(L, kGuardName)) {
    lua_pushcfunction(L, guard<l_close>);
    lua_setfield(L, -2, "__close");
    lua_pushcfunction(L, guard<l_collect>);
    lua_setfield(L, -2, "__gc");
    lua_pushliteral(L, "mode");
    lua_setfield(L, -2, "__metatable");
  }
  new (cell) ModeGuard(std::move(mode), function, std::move(where));
  lua_setmetatable(L, -2);
}

void register_modes(lua_State* L) {
  static const luaL_Reg kModule[] = {{"_autocast", guard<l_autocast>},
                                     {"_device_types", guard<l_device_types>},
                                     {"_autocast_state", guard<l_autocast_state>},
                                     {"_autocast_dtype", guard<l_autocast_dtype>},
                                     {"is_autocast_enabled", guard<l_is_autocast_enabled>},
                                     {nullptr, nullptr}};
  set_functions(L, -2, kModule);
  register_op_tables(L);
  register_defined_ops(L);
  register_override(L);
  register_profiler(L);
  register_transforms(L);
  register_anomaly(L);
}

}  // namespace moonlet::binding
