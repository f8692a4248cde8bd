// interp/binding/context.cpp: what is set for a state or the process rather than a tensor: default
// dtype, threads, scopes of temporaries, memory counts, CUDA devices.
#include <cstring>

#include "interp/binding/args.h"
#include "interp/namespace.h"
#include "tensor/backend.h"
#include "tensor/execution.h"
#include "tensor/memory/live_peak.h"
#include "tensor/threads.h"

namespace moonlet::binding {
namespace {

int l_set_default_dtype(lua_State* L) {
  check(lua_type(L, 1) == LUA_TSTRING,
        "set_default_dtype: a dtype such as ml.float32 is wanted, got ", type_name(L, 1));
  const DType dtype = dtype_from_name(lua_tostring(L, 1));
  check(is_floating(dtype), "set_default_dtype: a floating dtype is wanted, got ", dtype);
  execution.default_dtype = dtype;
  return 0;
}

int l_get_default_dtype(lua_State* L) {
  const std::string_view text = name(execution.default_dtype);
  lua_pushlstring(L, text.data(), text.size());
  return 1;
}

int l_set_num_threads(lua_State* L) {
  set_num_threads(integer_argument(L, 1, "set_num_threads", "the number"));
  return 0;
}

int l_get_num_threads(lua_State* L) { return push_result(L, static_cast<int64_t>(num_threads())); }

// --- scope -------------------------------------------------------------------------------------

int end_scope(lua_State* L, int status, lua_KContext before) {
  if (thread_allocated_bytes() != before) gc::collect(L);
  return status == LUA_OK || status == LUA_YIELD ? lua_gettop(L) : lua_error(L);
}

// Runs a function and then collects all garbage, so that what it made and nothing refers to any
// more is freed at once, after an error too. What is still reachable stays, whoever holds it.
int l_scope(lua_State* L) {
  check(lua_isfunction(L, 1), "scope: a function is wanted, got ", type_name(L, 1));
  const lua_KContext before = thread_allocated_bytes();
  const int arguments = lua_gettop(L) - 1;
  return end_scope(L, lua_pcallk(L, arguments, LUA_MULTRET, 0, before, end_scope), before);
}

// --- memory and devices ------------------------------------------------------------------------

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
  check(lua_isfunction(L, 1), "peak_live_bytes: a function is wanted, got ", type_name(L, 1));
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
  if (cuda_backend() != nullptr) allocator_for(DeviceType::CUDA).empty_cache();
  static_cast<void>(L);
  return 0;
}

Backend& need_cuda(const char* op) {
  Backend* backend = cuda_backend();
  if (backend == nullptr) fail(op, ": CUDA is not available: ", cuda_unavailable_reason());
  return *backend;
}

// A device number, from 0 as in "cuda:0", that exists.
int device_argument(lua_State* L, Backend& backend, const char* op) {
  if (lua_isnoneornil(L, 1)) return 0;
  int64_t index = 0;
  if (lua_type(L, 1) == LUA_TSTRING) {
    const Device device = device_from_name(lua_tostring(L, 1));
    check(device.is_cuda(), op, ": a CUDA device is wanted, got ", device);
    index = device.index;
  } else {
    index = integer_argument(L, 1, op, "the device");
  }
  check(index >= 0 && index < backend.device_count(), op, ": there is no device ", index, " among ",
        backend.device_count());
  return static_cast<int>(index);
}

int l_cuda_available(lua_State* L) { return push_result(L, cuda_backend() != nullptr); }

int l_cuda_reason(lua_State* L) {
  if (cuda_backend() != nullptr) return 0;
  const std::string& reason = cuda_unavailable_reason();
  lua_pushlstring(L, reason.data(), reason.size());
  return 1;
}

int l_cuda_count(lua_State* L) {
  Backend* backend = cuda_backend();
  return push_result(L, static_cast<int64_t>(backend != nullptr ? backend->device_count() : 0));
}

int l_cuda_name(lua_State* L) {
  Backend& backend = need_cuda("device_name");
  const std::string text = backend.device_name(device_argument(L, backend, "device_name"));
  lua_pushlstring(L, text.data(), text.size());
  return 1;
}

int l_cuda_synchronize(lua_State* L) {
  Backend& backend = need_cuda("synchronize");
  backend.synchronize(device_argument(L, backend, "synchronize"));
  return 0;
}

int l_cuda_memory(lua_State* L) {
  Backend& backend = need_cuda("memory_info");
  const auto [available, total] = backend.memory_info(device_argument(L, backend, "memory_info"));
  return push_result(L, available) + push_result(L, total);
}

int l_cuda_emulated(lua_State* L) {
  Backend* backend = cuda_backend();
  return push_result(L, backend != nullptr && backend->emulated());
}

int l_cuda_live_bytes(lua_State* L) { return push_result(L, live_bytes(DeviceType::CUDA)); }

void register_devices(lua_State* L) {
  static const luaL_Reg kMemory[] = {
      {"live_bytes", guard<l_live_bytes>},           {"held_bytes", guard<l_held_bytes>},
      {"peak_bytes", guard<l_peak_bytes>},           {"reset_peak", guard<l_reset_peak>},
      {"peak_live_bytes", guard<l_peak_live_bytes>}, {"collect", guard<l_collect>},
      {"empty_cache", guard<l_empty_cache>},         {nullptr, nullptr}};
  static const luaL_Reg kCuda[] = {{"is_available", guard<l_cuda_available>},
                                   {"unavailable_reason", guard<l_cuda_reason>},
                                   {"device_count", guard<l_cuda_count>},
                                   {"device_name", guard<l_cuda_name>},
                                   {"synchronize", guard<l_cuda_synchronize>},
                                   {"memory_info", guard<l_cuda_memory>},
                                   {"is_emulated", guard<l_cuda_emulated>},
                                   {"live_bytes", guard<l_cuda_live_bytes>},
                                   {nullptr, nullptr}};
  luaL_newlib(L, kMemory);
  make_namespace(L, "memory");
  lua_setfield(L, -3, "memory");
  luaL_newlib(L, kCuda);
  make_namespace(L, "cuda");
  lua_setfield(L, -3, "cuda");
}

}  // namespace

void register_context(lua_State* L) {
  static const luaL_Reg kModule[] = {{"set_default_dtype", guard<l_set_default_dtype>},
                                     {"get_default_dtype", guard<l_get_default_dtype>},
                                     {"set_num_threads", guard<l_set_num_threads>},
                                     {"get_num_threads", guard<l_get_num_threads>},
                                     {"scope", guard<l_scope>},
                                     {nullptr, nullptr}};
  set_functions(L, -2, kModule);
  register_devices(L);
  register_grad_mode(L);
  register_generator(L);
}

}  // namespace moonlet::binding
