// interp/binding/settings.cpp: the default dtype and device, the number of threads, the precision
// of products, and warnings of the standard library.
#include "interp/binding/arg_reader.h"
#include "tensor/core/warning.h"
#include "tensor/runtime/execution.h"
#include "tensor/runtime/float32_precision.h"
#include "tensor/runtime/streams.h"
#include "tensor/runtime/threads.h"

namespace moonlet::binding {
namespace {

int l_set_default_dtype(lua_State* L) {
  check(lua_type(L, 1) == LUA_TSTRING,
        "set_default_dtype: a dtype such as ml.float32 is expected, got ", type_name(L, 1));
  const DType dtype = dtype_from_name(lua_tostring(L, 1));
  check(contains(dtypes::floating, dtype), "set_default_dtype: a floating dtype is expected, got ",
        dtype);
  execution.default_dtype = dtype;
  return 0;
}

int l_get_default_dtype(lua_State* L) { return push_string(L, name(execution.default_dtype)); }

int l_set_default_device(lua_State* L) {
  check(lua_type(L, 1) == LUA_TSTRING,
        "set_default_device: a device such as \"cuda:0\" is expected, got ", type_name(L, 1));
  const std::string_view wanted = lua_tostring(L, 1);
  execution.default_device = device_from_name(wanted);
  device_state.default_follows = wanted == name(execution.default_device.type);
  return 0;
}

int l_get_default_device(lua_State* L) { return push_string(L, name(execution.default_device)); }

int l_set_num_threads(lua_State* L) {
  set_num_threads(integer_argument(L, 1, "set_num_threads", "the number"));
  return 0;
}

int l_get_num_threads(lua_State* L) { return push_result(L, static_cast<int64_t>(num_threads())); }

int l_set_flush_denormal(lua_State* L) {
  check(lua_isboolean(L, 1), "set_flush_denormal: true or false is expected, got ",
        type_name(L, 1));
  return push_result(L, set_flush_denormal(lua_toboolean(L, 1) != 0));
}

int l_set_float32_matmul_precision(lua_State* L) {
  check(lua_type(L, 1) == LUA_TSTRING,
        "set_float32_matmul_precision: \"highest\", \"high\" or \"medium\" is expected, got ",
        type_name(L, 1));
  set_float32_precision(float32_precision_from_name(lua_tostring(L, 1)));
  return 0;
}

int l_get_float32_matmul_precision(lua_State* L) {
  return push_string(L, name(float32_precision()));
}

// A key and a message: shown once for each key, as the warnings of ops are.
int l_warn_once(lua_State* L) {
  warn_once(luaL_checkstring(L, 1), luaL_checkstring(L, 2));
  return 0;
}

}  // namespace

void register_settings(lua_State* L) {
  static const luaL_Reg kModule[] = {
      {"set_default_dtype", guard<l_set_default_dtype>},
      {"get_default_dtype", guard<l_get_default_dtype>},
      {"set_default_device", guard<l_set_default_device>},
      {"get_default_device", guard<l_get_default_device>},
      {"set_num_threads", guard<l_set_num_threads>},
      {"get_num_threads", guard<l_get_num_threads>},
      {"set_flush_denormal", guard<l_set_flush_denormal>},
      {"set_float32_matmul_precision", guard<l_set_float32_matmul_precision>},
      {"get_float32_matmul_precision", guard<l_get_float32_matmul_precision>},
      {"_warn_once", guard<l_warn_once>},
      {nullptr, nullptr}};
  set_functions(L, -2, kModule);
}

}  // namespace moonlet::binding
