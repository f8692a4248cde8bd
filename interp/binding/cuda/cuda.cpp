// interp/binding/cuda/cuda.cpp: ml.cuda: which CUDA devices there are, their memory, waiting for
// them.
#include "interp/binding/arg_reader.h"
#include "interp/binding/cuda/cuda_device.h"
#include "tensor/runtime/backend.h"

namespace moonlet::binding {

void register_cuda_graphs(lua_State* L);

namespace {

Backend& need_cuda(const char* op) {
  Backend* backend = cuda_backend();
  if (backend == nullptr) fail(op, ": CUDA is not available: ", cuda_unavailable_reason());
  return *backend;
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
  return push_string(L, backend.device_name(cuda_device_argument(L, 1, "device_name")));
}

int l_cuda_synchronize(lua_State* L) {
  Backend& backend = need_cuda("synchronize");
  backend.synchronize(cuda_device_argument(L, 1, "synchronize"));
  return 0;
}

int l_cuda_memory(lua_State* L) {
  Backend& backend = need_cuda("memory_info");
  const auto [available, total] = backend.memory_info(cuda_device_argument(L, 1, "memory_info"));
  return push_result(L, available) + push_result(L, total);
}

int l_cuda_emulated(lua_State* L) {
  Backend* backend = cuda_backend();
  return push_result(L, backend != nullptr && backend->emulated());
}

int l_cuda_wait_count(lua_State* L) {
  Backend* backend = loaded_cuda_backend();
  return push_result(L, backend != nullptr ? backend->wait_count() : int64_t{0});
}

int l_cuda_live_bytes(lua_State* L) { return push_result(L, live_bytes(DeviceType::CUDA)); }

}  // namespace

void register_cuda(lua_State* L) {
  static const luaL_Reg kCuda[] = {
      {"is_available", guard<l_cuda_available>},  {"unavailable_reason", guard<l_cuda_reason>},
      {"device_count", guard<l_cuda_count>},      {"device_name", guard<l_cuda_name>},
      {"synchronize", guard<l_cuda_synchronize>}, {"memory_info", guard<l_cuda_memory>},
      {"is_emulated", guard<l_cuda_emulated>},    {"wait_count", guard<l_cuda_wait_count>},
      {"live_bytes", guard<l_cuda_live_bytes>},   {nullptr, nullptr}};
  register_cuda_memory(L);
  luaL_newlib(L, kCuda);
  register_streams(L);
  register_cudnn(L);
  lua_setfield(L, -3, "_cuda");
  register_record_stream(L);
  register_cuda_graphs(L);
}

}  // namespace moonlet::binding
