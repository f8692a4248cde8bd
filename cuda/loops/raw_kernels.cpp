// cuda/loops/raw_kernels.cpp: compiles kernels that scripts write, keeps them for the process, and
// launches them.
#include "cuda/loops/raw_kernels.h"

#include <cuda_runtime.h>

#include <map>
#include <mutex>
#include <utility>

#include "cuda/loops/device_code.h"
#include "cuda/loops/nvrtc.h"
#include "cuda/loops/raw_source.h"
#include "cuda/runtime/device.h"

namespace moonlet::cuda::loops {

#ifdef MOONLET_HAS_LOOPS

namespace {

// The limits of a device, which a launch is held to before the runtime sees it.
struct Limits {
  std::array<int64_t, 3> grid{}, block{};
  int64_t threads = 0, shared_bytes = 0;

  Limits(int device, const char* op) {
    cudaDeviceProp p;
    ensure(cudaGetDeviceProperties(&p, device), op);
    for (int i = 0; i < 3; ++i) grid[i] = p.maxGridSize[i], block[i] = p.maxThreadsDim[i];
    threads = p.maxThreadsPerBlock;
    shared_bytes = static_cast<int64_t>(p.sharedMemPerBlockOptin);
  }
};

// More dynamic shared memory than this a kernel is given only when it was asked for.
constexpr int64_t kGivenSharedBytes = 48 << 10;

dim3 as_dim3(const std::array<int64_t, 3>& size) {
  return {static_cast<unsigned>(size[0]), static_cast<unsigned>(size[1]),
          static_cast<unsigned>(size[2])};
}

class Kernel final : public RawKernel {
 public:
  Kernel(std::string name, cudaKernel_t kernel, int device)
      : name_(std::move(name)), kernel_(kernel), device_(device), limits_(device, name_.c_str()) {}

  void launch(const RawLaunch& launch) const override {
    const char* const op = name_.c_str();
    check_size("grid", launch.grid, limits_.grid);
    check_size("block", launch.block, limits_.block);
    const int64_t threads = launch.block[0] * launch.block[1] * launch.block[2];
    check(threads <= limits_.threads, op, ": a block of ", threads,
          " threads, and the device has "
          "at most ",
          limits_.threads, " in one");
    check(launch.shared_bytes >= 0 && launch.shared_bytes <= limits_.shared_bytes, op,
          ": shared_memory must be from 0 to ", limits_.shared_bytes, " bytes on this device, got ",
          launch.shared_bytes);
    const DeviceGuard guard(device_, op);
    const auto* const kernel = reinterpret_cast<const void*>(kernel_);
    if (launch.shared_bytes > kGivenSharedBytes)
      ensure(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  static_cast<int>(launch.shared_bytes)),
             op);
    uint64_t none = 0;
    std::vector<void*> arguments{&none};
    for (size_t i = 0; i < launch.words.size(); ++i) {
      arguments.resize(i + 1);
      arguments[i] = const_cast<uint64_t*>(&launch.words[i]);
    }
    const cudaStream_t stream = current_stream(device_);
    const cudaError_t error =
        cudaLaunchKernel(kernel, as_dim3(launch.grid), as_dim3(launch.block), arguments.data(),
                         static_cast<size_t>(launch.shared_bytes), stream);
    if (error != cudaSuccess) cudaGetLastError();  // the next launch would be blamed for it
    ensure(error, op);
    launched(op, stream);
  }

 private:
  void check_size(const char* what, const std::array<int64_t, 3>& size,
                  const std::array<int64_t, 3>& most) const {
    static constexpr const char* kAxes[] = {"x", "y", "z"};
    for (size_t i = 0; i < 3; ++i)
      check(size[i] >= 1 && size[i] <= most[i], name_, ": ", what, " must be from 1 to ", most[i],
            " in ", kAxes[i], " on this device, got ", size[i]);
  }

  const std::string name_;
  const cudaKernel_t kernel_;
  const int device_;
  const Limits limits_;
};

#ifdef MOONLET_CUDA_EMULATED
constexpr bool kForHost = true;
#else
constexpr bool kForHost = false;
#endif

class Kernels final : public RawKernels {
 public:
  std::shared_ptr<const RawKernel> compile(const RawSource& source, int device) override {
    const char* const op = source.name.c_str();
    std::string more;
    for (const std::string& option : source.options) more += (more.empty() ? "" : "\n") + option;
    const int capability = capability_of(device, op);
    const std::string whole = raw_source_text(source, kForHost);
    const std::lock_guard lock(mutex_);
    cudaKernel_t& kernel = loaded_[text(capability, "\n", more, "\n", source.name, "\n", whole)];
    if (kernel == nullptr) load(source, whole, more, capability, device, kernel);
    return std::make_shared<const Kernel>(source.name, kernel, device);
  }

 private:
  static void load(const RawSource& source, const std::string& whole, const std::string& more,
                   int capability, int device, cudaKernel_t& kernel) {
    const char* const op = source.name.c_str();
    const std::string entry = raw_entry_name(source.name, kForHost);
    bool has_kernel = true;
    const auto take = [&](const std::string& code) {
      cudaLibrary_t library = nullptr;
      const DeviceGuard guard(device, op);
      if (cudaLibraryLoadData(&library, code.data(), nullptr, nullptr, 0, nullptr, nullptr, 0) !=
          cudaSuccess) {
        cudaGetLastError();
        return false;
      }
      has_kernel = cudaLibraryGetKernel(&kernel, library, entry.c_str()) == cudaSuccess;
      if (has_kernel) return true;
      kernel = nullptr;
      cudaLibraryUnload(library);
      cudaGetLastError();
      return true;
    };
    try {
      load_code(whole, capability, more, op, take);
    } catch (const OutOfMemory&) {
      throw;
    } catch (const Error& e) {
      fail("cuda.kernel: ", source.name, " cannot be compiled: ", e.what());
    }
    check(has_kernel, "cuda.kernel: the source has no kernel '", source.name,
          "'; declare it as extern \"C\" __global__ void ", source.name, "(...)");
  }

  std::mutex mutex_;
  std::map<std::string, cudaKernel_t> loaded_;  // of all that makes another kernel
};

}  // namespace

RawKernels* raw_kernels() noexcept {
  static Kernels& once = *new Kernels;
  return nvrtc().usable() ? &once : nullptr;
}

#else

RawKernels* raw_kernels() noexcept { return nullptr; }

#endif

}  // namespace moonlet::cuda::loops
