// interp/binding/cuda.cpp: ml.cuda: which CUDA devices there are, their memory, waiting for them.
#include "interp/binding/arg_reader.h"
#include "interp/namespace.h"
#include "tensor/backend.h"

namespace moonlet::binding {
namespace {

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
  return push_string(L, backend.device_name(device_argument(L, backend, "device_name")));
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

}  // namespace

void register_cuda(lua_State* L) {
  static const luaL_Reg kCuda[] = {{"is_available", guard<l_cuda_available>},
                                   {"unavailable_reason", guard<l_cuda_reason>},
                                   {"device_count", guard<l_cuda_count>},
                                   {"device_name", guard<l_cuda_name>},
                                   {"synchronize", guard<l_cuda_synchronize>},
                                   {"memory_info", guard<l_cuda_memory>},
                                   {"is_emulated", guard<l_cuda_emulated>},
                                   {"live_bytes", guard<l_cuda_live_bytes>},
                                   {nullptr, nullptr}};
  luaL_newlib(L, kCuda);
  make_namespace(L, "cuda");
  lua_setfield(L, -3, "cuda");
}

}  // namespace moonlet::binding
