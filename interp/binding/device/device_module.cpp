// interp/binding/device/device_module.cpp: the module of a kind of device, as ml.cuda: which
// devices there are, their memory, waiting for them.
#include "interp/binding/device/device_module.h"

#include "interp/binding/arg_reader.h"

namespace moonlet::binding {

DeviceType module_type(lua_State* L) {
  return static_cast<DeviceType>(lua_tointeger(L, lua_upvalueindex(1)));
}

Backend& module_backend(lua_State* L, const char* op) {
  return require_backend(module_type(L), op);
}

int device_argument(lua_State* L, int index, const char* op) {
  Backend& backend = module_backend(L, op);
  const DeviceType type = module_type(L);
  if (lua_isnoneornil(L, index)) return current_device(type).index;
  int64_t number = 0;
  if (lua_type(L, index) == LUA_TSTRING) {
    const Device device = device_from_name(lua_tostring(L, index));
    check(device.type == type, op, ": a ", title_of(type), " device is expected, got ", device);
    number = device.index;
  } else {
    number = integer_argument(L, index, op, "the device");
  }
  check(number >= 0 && number < backend.device_count(), op, ": there is no device ", number,
        " among ", backend.device_count());
  return static_cast<int>(number);
}

void set_module_functions(lua_State* L, DeviceType type, const luaL_Reg* functions) {
  lua_pushinteger(L, static_cast<lua_Integer>(type));
  luaL_setfuncs(L, functions, 1);
}

namespace {

int l_is_available(lua_State* L) { return push_result(L, backend_of(module_type(L)) != nullptr); }

int l_reason(lua_State* L) {
  if (backend_of(module_type(L)) != nullptr) return 0;
  const std::string& reason = unavailable_reason(module_type(L));
  lua_pushlstring(L, reason.data(), reason.size());
  return 1;
}

int l_count(lua_State* L) {
  Backend* backend = backend_of(module_type(L));
  return push_result(L, static_cast<int64_t>(backend != nullptr ? backend->device_count() : 0));
}

int l_name(lua_State* L) {
  Backend& backend = module_backend(L, "device_name");
  return push_string(L, backend.device_name(device_argument(L, 1, "device_name")));
}

int l_synchronize(lua_State* L) {
  Backend& backend = module_backend(L, "synchronize");
  backend.synchronize(device_argument(L, 1, "synchronize"));
  return 0;
}

int l_memory(lua_State* L) {
  DeviceMemoryReports* reports = module_backend(L, "memory_info").memory_reports();
  check(reports != nullptr, "memory_info: these devices do not tell");
  const auto [available, total] = reports->free_and_total(device_argument(L, 1, "memory_info"));
  return push_result(L, available) + push_result(L, total);
}

int l_is_emulated(lua_State* L) {
  Backend* backend = backend_of(module_type(L));
  return push_result(L, backend != nullptr && backend->emulated());
}

int l_wait_count(lua_State* L) {
  Backend* backend = opened_backend(module_type(L));
  DeferredErrors* errors = backend != nullptr ? backend->deferred_errors() : nullptr;
  return push_result(L, errors != nullptr ? errors->wait_count() : int64_t{0});
}

int l_live_bytes(lua_State* L) { return push_result(L, live_bytes(module_type(L))); }

}  // namespace

void register_device_module(lua_State* L, DeviceType type) {
  static const luaL_Reg kFunctions[] = {
      {"is_available", guard<l_is_available>}, {"unavailable_reason", guard<l_reason>},
      {"device_count", guard<l_count>},        {"device_name", guard<l_name>},
      {"synchronize", guard<l_synchronize>},   {"memory_info", guard<l_memory>},
      {"is_emulated", guard<l_is_emulated>},   {"wait_count", guard<l_wait_count>},
      {"live_bytes", guard<l_live_bytes>},     {nullptr, nullptr}};
  register_device_memory(L, type);
  lua_newtable(L);
  set_module_functions(L, type, kFunctions);
  register_streams(L, type);
  register_cudnn(L, type);
  register_raw_kernels(L, type);
  lua_setfield(L, -3, text("_", name(type)).c_str());
  register_record_stream(L);
  register_device_graphs(L, type);
}

}  // namespace moonlet::binding
