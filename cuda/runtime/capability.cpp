// cuda/runtime/capability.cpp: compares the architectures of the build with those of the devices.
#include "cuda/runtime/capability.h"

#include <array>
#include <atomic>

#include "cuda/runtime/device.h"

namespace moonlet::cuda {

void require_code_for(int device) {
  constexpr size_t kMaxDevices = 64;
  static std::array<std::atomic<bool>, kMaxDevices> known{};
  std::atomic<bool>& state = known.at(static_cast<size_t>(device));
  if (state.load(std::memory_order_relaxed)) [[likely]]
    return;
  int major = 0, minor = 0;
  ensure(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device), "cuda");
  ensure(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device), "cuda");
  check(has_code_for(MOONLET_GPU_ARCHS, 10 * major + minor), "cuda: cuda:", device,
        " has compute capability ", major, ".", minor, ", and this build has code for ",
        MOONLET_GPU_ARCHS, " alone: build it with -Dgpu_archs=", 10 * major + minor);
  state.store(true, std::memory_order_relaxed);
}

}  // namespace moonlet::cuda
