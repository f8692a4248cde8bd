// cuda/memory/allocator.h: the caching allocator of device memory, which has a part for each
// device.
#pragma once

#include <cuda_runtime.h>

#include <array>
#include <atomic>
#include <mutex>

#include "cuda/memory/device_memory.h"
#include "tensor/runtime/allocator.h"

namespace moonlet::cuda {

class CachingAllocator : public Allocator {
 public:
  // At least `bytes` bytes, aligned as cudaMalloc does (256). When the device has no more, gives
  // the cache back and tries once again; then throws OutOfMemory.
  void* allocate(size_t bytes, Device device, void** context) override;
  // May run at any time on any thread: the block is reused only by work in the stream it was made
  // for, which comes after what still uses it, and when the streams of record_stream have come as
  // far as they were asked to.
  void deallocate(void* data, size_t bytes, Device device, void* context) noexcept override;
  void empty_cache() noexcept override;
  int64_t cached_bytes() const noexcept override;

  // Notes that work in `stream`, which is not the one that the memory was made for, uses the block
  // that begins at `data` (Storage::data): once it is freed, it is reused only after what that
  // stream has been asked until then. Nothing where it is no block of this allocator.
  void record_stream(const void* data, int device, cudaStream_t stream);

  // While the memory of a stream of that device is held, it is neither given back to the device nor
  // hidden where it is free: replays of graphs use it.
  void hold(int device, cudaStream_t stream, bool holds) { of(device).hold(stream, holds); }

  // Throws where there is no such device.
  DeviceMemory& of(int device);
  // What all devices have; for those that were used.
  MemorySnapshot snapshot();
  // Of all devices, also those that are not used yet.
  void record_history(const MemoryHistory& history);

 private:
  static constexpr int kMaxDevices = 64;

  std::mutex mutex_;  // of what is made here; each DeviceMemory has its own
  std::array<std::atomic<DeviceMemory*>, kMaxDevices> devices_{};
  MemoryHistory history_;
};

// The one of this process; never destroyed, since tensors may outlive everything else.
CachingAllocator& caching_allocator();

}  // namespace moonlet::cuda
