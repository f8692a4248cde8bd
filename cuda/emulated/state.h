// cuda/emulated/state.h: what the emulated runtime remembers: devices, their allocations, live
// streams and events. Shared by runtime.cpp, streams.cpp, grid.cpp and cublas.cpp.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "cuda_runtime_api.h"

namespace moonlet::emulated {

inline constexpr std::size_t kDefaultShared = std::size_t{48} << 10;
/// The shared memory that a block may have on devices of a compute capability (CUDA C++ Programming
/// Guide, "Technical Specifications per Compute Capability").
constexpr std::size_t max_shared_of(int capability) {
  const bool small = capability == 86 || capability == 89 || capability >= 120;
  return std::size_t{capability < 80 ? 48u : small ? 99u : capability < 90 ? 163u : 227u} << 10;
}

using Ranges = std::map<std::uintptr_t, std::size_t>;  // start of an allocation to its bytes

struct Device {
  Ranges blocks;
  std::size_t used = 0;
  cudaError_t sticky = cudaSuccess;
  std::string failure;
};

struct State {
  std::mutex mutex;
  std::vector<Device> devices;
  std::size_t limit = 0;  // bytes per device
  int capability = 0;     // 10 * major + minor
  std::size_t max_shared = 0;
  long failing = 0;  // the number of the kernel that fails, from 1; 0 for none
  std::atomic<long> launched{0};
  std::atomic<long> graphs{0};  // that can be launched
  Ranges pinned;
  std::set<cudaStream_t> streams;
  std::set<cudaEvent_t> events;
  std::set<std::pair<int, int>> peers;
  std::map<const void*, std::size_t> shared_limits;  // per kernel, from cudaFuncSetAttribute
};

/// The one state of the process, built from the environment on first use and never destroyed.
State& state();

int current_device();

/// cudaSuccess, or why no call on the current device can work: none there, or a failed kernel.
cudaError_t device_error();

/// Records `error` as the thread's last error and returns it.
cudaError_t report(cudaError_t error);

/// Marks the current device as failed until it is reset.
void set_sticky(cudaError_t error, const std::string& why);

/// True for the default streams and for live streams of the current device.
bool valid_stream(cudaStream_t stream);

/// The device whose allocation holds all of [pointer, pointer + bytes), -1 for host memory, -2 when
/// the range starts in an allocation and leaves it. Takes the lock.
int owner(const void* pointer, std::size_t bytes);

/// Whether kernels of the current device may use memory of that one: its own, and that of a peer
/// that it has access to.
bool may_access(int device);

}  // namespace moonlet::emulated
