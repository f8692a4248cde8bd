// interp/binding/device/cudnn.cpp: what stdlib/backends/cudnn.lua is made of: the settings of the
// running interpreter and the library's version.
#include "interp/binding/arg_reader.h"
#include "interp/binding/device/device_module.h"
#include "tensor/runtime/backend.h"
#include "tensor/runtime/cudnn_settings.h"

namespace moonlet::binding {
namespace {

// -> enabled, benchmark, benchmark_limit, deterministic, allow_tf32.
int l_settings(lua_State* L) {
  const CudnnSettings now = cudnn_settings;
  return push_result(L, now.enabled) + push_result(L, now.benchmark) +
         push_result(L, static_cast<int64_t>(now.benchmark_limit)) +
         push_result(L, now.deterministic) + push_result(L, now.allow_tf32);
}

// Takes what `l_settings` gives; Lua has checked it.
int l_set(lua_State* L) {
  const int64_t limit = integer_argument(L, 3, "cudnn", "benchmark_limit");
  check(limit >= 0 && limit <= INT32_MAX, "cudnn: 'benchmark_limit' must be 0 or more, got ",
        limit);
  CudnnSettings& s = cudnn_settings;
  s.enabled = lua_toboolean(L, 1) != 0;
  s.benchmark = lua_toboolean(L, 2) != 0;
  s.benchmark_limit = static_cast<int32_t>(limit);
  s.deterministic = lua_toboolean(L, 4) != 0;
  s.allow_tf32 = lua_toboolean(L, 5) != 0;
  return 0;
}

// -> whether attention may go to it; with an argument, sets that.
int l_attention(lua_State* L) {
  if (lua_gettop(L) > 0) cudnn_settings.attention = lua_toboolean(L, 1) != 0;
  return push_result(L, cudnn_settings.attention);
}

// The version as one number, or nothing where it is not there.
int l_version(lua_State* L) {
  Backend* backend = backend_of(module_type(L));
  const int64_t version = backend != nullptr ? backend->library_version("cudnn") : 0;
  return version == 0 ? 0 : push_result(L, version);
}

}  // namespace

void register_cudnn(lua_State* L, DeviceType type) {
  static const luaL_Reg kFunctions[] = {{"_cudnn_settings", guard<l_settings>},
                                        {"_set_cudnn", guard<l_set>},
                                        {"_cudnn_attention", guard<l_attention>},
                                        {"_cudnn_version", guard<l_version>},
                                        {nullptr, nullptr}};
  set_module_functions(L, type, kFunctions);
}

}  // namespace moonlet::binding
