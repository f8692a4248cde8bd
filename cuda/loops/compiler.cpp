// cuda/loops/compiler.cpp: compiles the sources of loops once for each device, keeps the code in
// the cache of files, and launches the kernels.
#include "cuda/loops/compiler.h"

#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#include "cuda/loops/device_code.h"
#include "cuda/loops/loop_source.h"
#include "cuda/loops/nvrtc.h"
#include "cuda/runtime/device.h"
#include "tensor/program/fusion/executor.h"
#include "tensor/runtime/execution.h"

namespace moonlet::cuda::loops {

#ifdef MOONLET_HAS_LOOPS

namespace {

constexpr const char* kOp = "program";

// The kernels of a source on the devices of one capability, for the rest of the process.
struct Kernels {
  cudaKernel_t elements = nullptr, packs = nullptr;
};

class Loaded {
 public:
  Kernels get(const LoopSource& source, int device);

 private:
  std::mutex mutex_;
  std::map<std::pair<std::string, int>, Kernels> kernels_;
};

Kernels Loaded::get(const LoopSource& source, int device) {
  const int capability = capability_of(device, kOp);
  const std::lock_guard lock(mutex_);
  const auto at = std::pair(source.text, capability);
  if (const auto found = kernels_.find(at); found != kernels_.end()) return found->second;
  Kernels out;
  const auto load = [&](const std::string& code) {
    cudaLibrary_t library = nullptr;
    const DeviceGuard guard(device, kOp);
    if (cudaLibraryLoadData(&library, code.data(), nullptr, nullptr, 0, nullptr, nullptr, 0) !=
            cudaSuccess ||
        cudaLibraryGetKernel(&out.elements, library, kElements) != cudaSuccess ||
        (source.pack > 1 && cudaLibraryGetKernel(&out.packs, library, kPacks) != cudaSuccess)) {
      out = {};
      if (library) cudaLibraryUnload(library);
      cudaGetLastError();
    }
    return out.elements != nullptr;
  };
  load_code(source.text, capability, {}, kOp, load);
  return kernels_.emplace(at, out).first->second;
}

Loaded& loaded() {
  static Loaded& once = *new Loaded;
  return once;
}

class CudaLoop final : public program::LoopExecutor {
 public:
  CudaLoop(const program::Loop& loop, const LoopSource& source)
      : kernels_(loaded().get(source, loop.device.index)),
        words_(loop_words(loop, source.pack)),
        device_(loop.device.index) {}

  void run(char* const* addresses) const override {
    alignas(16) uint64_t words[kMaxWords];
    const DeviceGuard guard(device_, kOp);
    const bool in_packs = words_.fill(words, addresses, true);
    if (!in_packs) words_.fill(words, addresses, false);
    const cudaStream_t stream = current_stream(device_);
    const auto count = static_cast<int64_t>(words[0]);
    // Packs have a thread each.
    const unsigned blocks =
        in_packs ? static_cast<unsigned>((count + kThreads - 1) / kThreads) : blocks_for(count);
    void* arguments[] = {words};
    const void* const kernel =
        reinterpret_cast<const void*>(in_packs ? kernels_.packs : kernels_.elements);
    const cudaError_t error =
        cudaLaunchKernel(kernel, dim3(blocks), dim3(kThreads), arguments, 0, stream);
    if (error != cudaSuccess) cudaGetLastError();  // the next launch would be blamed for it
    ensure(error, kOp);
    launched(kOp, stream);
  }

 private:
  const Kernels kernels_;
  const LoopWords words_;
  const int device_;
};

// Whether the environment says MOONLET_COMPILE=log.
bool is_logged() {
  const char* const value = execution.reads_environment ? std::getenv("MOONLET_COMPILE") : nullptr;
  return value != nullptr && std::strcmp(value, "log") == 0;
}

class Compiler final : public LoopCompiler {
 public:
  std::unique_ptr<const program::LoopExecutor> compile(const program::Loop& loop) override {
    const auto source = loop_source(loop);
    if (!source) return nullptr;
    try {
      return std::make_unique<const CudaLoop>(loop, *source);
    } catch (const OutOfMemory&) {
      throw;
    } catch (const Error& error) {
      // What cannot be compiled here runs op by op.
      if (is_logged()) std::fprintf(stderr, "%s\n", error.what());
      return nullptr;
    }
  }
};

}  // namespace

LoopCompiler* compiler() noexcept {
  static Compiler once;
  return nvrtc().usable() ? &once : nullptr;
}

#else

LoopCompiler* compiler() noexcept { return nullptr; }

#endif

}  // namespace moonlet::cuda::loops
