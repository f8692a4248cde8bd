// cuda/backend.cpp: the plugin's entry: looks for usable devices, then offers kernels, memory and
// transfers to the rest of Moonlet.
#include "tensor/backend.h"

#include <cuda_runtime.h>

#include "cuda/allocator.h"
#include "cuda/device.h"
#include "cuda/pinned.h"
#include "tensor/dispatch.h"
#include "tensor/kernels.h"
#include "tensor/op_table_hash.h"

namespace moonlet {
extern const KernelTable cuda_kernels;
}

namespace moonlet::cuda {

void transfer(Tensor& out, const Tensor& in) {
  const size_t bytes = static_cast<size_t>(in.numel()) * size_of(in.dtype());
  if (bytes == 0) return;
  constexpr const char* op = "to";
  const Device to = out.device(), from = in.device();
  const DeviceGuard guard(to.is_cuda() ? to.index : from.index, op);
  const cudaStream_t stream = current_stream(to.is_cuda() ? to.index : from.index);
  if (to.is_cuda() && from.is_cuda() && to.index != from.index) {
    ensure(cudaStreamSynchronize(stream), op);
    ensure(cudaMemcpyPeer(out.raw(), to.index, in.raw(), from.index, bytes), op);
    return;
  }
  const auto kind = !to.is_cuda()    ? cudaMemcpyDeviceToHost
                    : from.is_cuda() ? cudaMemcpyDeviceToDevice
                                     : cudaMemcpyHostToDevice;
  ensure(cudaMemcpyAsync(out.raw(), in.raw(), bytes, kind, stream), op);
  ensure(cudaStreamSynchronize(stream), op);
}

namespace {

class CudaBackend : public Backend {
 public:
  explicit CudaBackend(int count) : count_(count) {}
  int device_count() override { return count_; }

  std::string device_name(int index) override {
    cudaDeviceProp properties;
    ensure(cudaGetDeviceProperties(&properties, index), "cuda");
    return properties.name;
  }

  void synchronize(int index) override {
    const DeviceGuard guard(index, "synchronize");
    ensure(cudaDeviceSynchronize(), "synchronize");
  }

  void transfer(Tensor& out, const Tensor& in) override { cuda::transfer(out, in); }

  std::pair<int64_t, int64_t> memory_info(int index) override {
    const DeviceGuard guard(index, "memory_info");
    size_t free_bytes = 0, total = 0;
    ensure(cudaMemGetInfo(&free_bytes, &total), "memory_info");
    return {static_cast<int64_t>(free_bytes), static_cast<int64_t>(total)};
  }

  bool emulated() override {
#ifdef MOONLET_CUDA_EMULATED
    return true;
#else
    return false;
#endif
  }

  void* pin_memory(size_t bytes) override { return cuda::pin_memory(bytes); }
  void unpin_memory(void* data, size_t bytes) noexcept override { cuda::unpin_memory(data, bytes); }
  bool is_pinned(const void* data) noexcept override { return cuda::is_pinned(data); }

 private:
  int count_;
};

}  // namespace
}  // namespace moonlet::cuda

extern "C" {
__attribute__((visibility("default"))) extern const moonlet::PluginInfo moonlet_cuda_info;
const moonlet::PluginInfo moonlet_cuda_info = {"moonlet plugin", moonlet::kPluginVersion,
                                               moonlet::kOpTableHash};
}

// The plugin's one exported function: null, with the reason, when no device can be used.
extern "C" __attribute__((visibility("default"))) moonlet::Backend* moonlet_cuda_backend(
    std::string* reason) {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess || count == 0) {
    cudaGetLastError();
    int driver = 0;
    const bool no_driver = cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0;
    *reason = no_driver              ? "no NVIDIA driver is installed"
              : error == cudaSuccess ? "there is no device"
                                     : cudaGetErrorString(error);
    return nullptr;
  }
  moonlet::set_allocator(moonlet::DeviceType::CUDA, &moonlet::cuda::caching_allocator());
  moonlet::register_kernels(moonlet::DeviceType::CUDA, &moonlet::cuda_kernels);
  static moonlet::cuda::CudaBackend& backend = *new moonlet::cuda::CudaBackend(count);
  return &backend;
}
