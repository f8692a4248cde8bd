// cuda/runtime/backend.cpp: the plugin's entry: looks for usable devices, then offers kernels,
// memory and transfers to the rest of Moonlet.
#include "tensor/runtime/backend.h"

#include <cuda_runtime.h>

#include "cuda/libraries/cudnn_conv.h"
#include "cuda/libraries/cudnn_recurrent.h"
#include "cuda/libraries/nccl.h"
#include "cuda/loops/compiler.h"
#include "cuda/loops/raw_kernels.h"
#include "cuda/memory/allocator.h"
#include "cuda/memory/pinned.h"
#include "cuda/runtime/device.h"
#include "cuda/runtime/faults.h"
#include "cuda/runtime/graph.h"
#include "cuda/runtime/streams.h"
#include "tensor/core/dispatch.h"
#include "tensor/kernels.h"
#include "tensor/op_table_hash.h"

namespace moonlet {
extern const KernelTable cuda_kernels;
}

namespace moonlet::cuda {

namespace {

class Graphs final : public DeviceGraphs {
 public:
  std::unique_ptr<DeviceGraph> new_graph() override { return cuda::new_graph(); }
  int64_t new_pool() noexcept override { return new_graph_pool(); }
  bool is_capturing(int index) noexcept override { return is_captured(current_stream(index)); }
};

class Pinned final : public PinnedMemory {
 public:
  void* allocate(size_t bytes) override { return pin_memory(bytes); }
  void release(void* data, size_t bytes) noexcept override { unpin_memory(data, bytes); }
  bool holds(const void* data) noexcept override { return is_pinned(data); }
};

class Reports final : public DeviceMemoryReports {
 public:
  std::pair<int64_t, int64_t> free_and_total(int index) override {
    const DeviceGuard guard(index, "memory_info");
    size_t free_bytes = 0, total = 0;
    ensure(cudaMemGetInfo(&free_bytes, &total), "memory_info");
    return {static_cast<int64_t>(free_bytes), static_cast<int64_t>(total)};
  }
  MemoryStatistics statistics(int index) override {
    return caching_allocator().of(index).statistics();
  }
  void reset_peaks(int index) override { caching_allocator().of(index).reset_peaks(); }
  void reset_accumulated(int index) override { caching_allocator().of(index).reset_accumulated(); }
  void set_fraction(int index, double fraction) override {
    const auto total = static_cast<double>(free_and_total(index).second);
    caching_allocator().of(index).set_limit(fraction, static_cast<size_t>(total * fraction));
  }
  double fraction(int index) override { return caching_allocator().of(index).fraction(); }
  MemorySnapshot snapshot() override { return caching_allocator().snapshot(); }
  void record_history(const MemoryHistory& history) override {
    caching_allocator().record_history(history);
  }
};

class Faults final : public DeferredErrors {
 public:
  void expect_all(const Tensor& holds, const std::string& text) override {
    cuda::expect_all(holds, lasting(text));
  }
  int64_t wait_count() noexcept override { return cuda::wait_count(); }
  void interpreter_closed(const StopFlag* flag) noexcept override { disown_faults(flag); }
};

class CudaBackend final : public Backend {
 public:
  explicit CudaBackend(int count) : count_(count) {}
  int device_count() override { return count_; }

  std::string device_name(int index) override {
    cudaDeviceProp properties;
    ensure(cudaGetDeviceProperties(&properties, index), "cuda");
    return properties.name;
  }

  const KernelTable& kernels() override { return cuda_kernels; }
  Allocator& allocator() override { return caching_allocator(); }
  void transfer(Tensor& out, const Tensor& in) override { cuda::transfer(out, in); }
  void synchronize(int index) override { wait_for_device(index, "synchronize"); }

  Streams* streams() noexcept override { return &cuda::streams(); }
  DeviceGraphs* graphs() noexcept override { return &graphs_; }
  PinnedMemory* pinned_memory() noexcept override { return &pinned_; }
  DeviceMemoryReports* memory_reports() noexcept override { return &reports_; }
  DeferredErrors* deferred_errors() noexcept override { return &faults_; }
  LoopCompiler* loop_compiler() noexcept override { return loops::compiler(); }
  RawKernels* raw_kernels() noexcept override { return loops::raw_kernels(); }
  Communicators* communicators() noexcept override { return nccl::communicators(); }
  RecurrentNetworks* recurrent_networks() noexcept override { return cudnn::recurrent_networks(); }

  std::vector<Property> device_properties(int index) override;

  bool can_access_peer(int index, int peer) override {
    if (index == peer) return false;
    int can = 0;
    ensure(cudaDeviceCanAccessPeer(&can, index, peer), "can_device_access_peer");
    return can != 0;
  }

  int64_t library_version(std::string_view name) override {
    return name == "cudnn" ? cudnn::version() : 0;
  }

  bool emulated() override {
#ifdef MOONLET_CUDA_EMULATED
    return true;
#else
    return false;
#endif
  }

 private:
  int count_;
  Graphs graphs_;
  Pinned pinned_;
  Reports reports_;
  Faults faults_;
};

std::vector<Backend::Property> CudaBackend::device_properties(int index) {
  cudaDeviceProp p;
  ensure(cudaGetDeviceProperties(&p, index), "get_device_properties");
  const auto bytes = [](size_t count) { return static_cast<int64_t>(count); };
  return {{"major", p.major},
          {"minor", p.minor},
          {"total_memory", bytes(p.totalGlobalMem)},
          {"multi_processor_count", p.multiProcessorCount},
          {"max_threads_per_multi_processor", p.maxThreadsPerMultiProcessor},
          {"max_threads_per_block", p.maxThreadsPerBlock},
          {"warp_size", p.warpSize},
          {"regs_per_multiprocessor", p.regsPerMultiprocessor},
          {"shared_memory_per_block", bytes(p.sharedMemPerBlock)},
          {"shared_memory_per_block_optin", bytes(p.sharedMemPerBlockOptin)},
          {"shared_memory_per_multiprocessor", bytes(p.sharedMemPerMultiprocessor)},
          {"L2_cache_size", p.l2CacheSize},
          {"is_integrated", p.integrated},
          {"is_multi_gpu_board", p.isMultiGpuBoard},
          {"pci_bus_id", p.pciBusID},
          {"pci_device_id", p.pciDeviceID},
          {"pci_domain_id", p.pciDomainID}};
}

}  // namespace
}  // namespace moonlet::cuda

extern "C" {
__attribute__((visibility("default"))) extern const moonlet::PluginInfo moonlet_plugin_info;
const moonlet::PluginInfo moonlet_plugin_info = {"moonlet plugin", moonlet::kPluginVersion,
                                                 moonlet::kOpTableHash};
}

// The plugin's one exported function: null, with the reason, when no device can be used.
extern "C" __attribute__((visibility("default"))) moonlet::Backend* moonlet_open_backend(
    moonlet::DeviceType, std::string* reason) {
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
  static moonlet::cuda::CudaBackend& backend = *new moonlet::cuda::CudaBackend(count);
  return &backend;
}
