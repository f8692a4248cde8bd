// cuda/allocator.h: the caching allocator of device memory: blocks cut from larger segments, kept
// per device and stream when freed, joined with their free neighbours.
#pragma once

#include <cuda_runtime.h>

#include <array>
#include <mutex>
#include <set>
#include <unordered_map>
#include <vector>

#include "tensor/allocator.h"

namespace moonlet::cuda {

class CachingAllocator : public Allocator {
 public:
  // At least `bytes` bytes, aligned as cudaMalloc does (256). When the device has no more, gives
  // the cache back and tries once again; then throws OutOfMemory naming the bytes.
  void* allocate(size_t bytes, Device device, void** context) override;
  // May run at any time on any thread: the block is reused only by work in the stream it was made
  // for, which comes after what still uses it.
  void deallocate(void* data, size_t bytes, Device device, void* context) noexcept override;
  // Work of `stream` uses that memory: when it is freed, it waits for what the stream has then.
  // Nothing where it is no block of this allocator.
  void record_stream(const void* data, int device, cudaStream_t stream);
  void empty_cache() noexcept override;
  int64_t cached_bytes() const noexcept override;
  // Bytes in blocks that are in use, and bytes taken from the device.
  int64_t allocated_bytes(int device) const noexcept;
  int64_t reserved_bytes(int device) const noexcept;

 private:
  struct Block {
    char* data;
    size_t size;
    cudaStream_t stream;
    Block* before = nullptr;  // the neighbours in the same segment
    Block* after = nullptr;
    bool free = false;
    bool small = false;
    std::vector<cudaStream_t> users = {};  // other streams, by record_stream
  };
  // A freed block and what must have happened before it is used again.
  struct Waiting {
    Block* block;
    std::vector<cudaEvent_t> events;
  };
  // Free blocks by stream, then size, then place.
  struct Order {
    bool operator()(const Block* a, const Block* b) const;
  };
  using FreeBlocks = std::set<Block*, Order>;
  static constexpr int kMaxDevices = 64;
  struct Pool {
    FreeBlocks small, large;
    std::unordered_map<const void*, Block*> used;
    std::vector<Waiting> waiting;
    int64_t allocated = 0, reserved = 0;
  };

  Block* find(Pool& pool, size_t size, cudaStream_t stream);
  Block* new_segment(Pool& pool, int device, size_t size, cudaStream_t stream);
  void split(Pool& pool, Block* block, size_t size);
  void join(FreeBlocks& blocks, Block* block, Block* neighbour);
  void add_free(Pool& pool, Block* block);
  bool note_users(Pool& pool, int device, Block* block) noexcept;
  void take_finished(Pool& pool, bool wait) noexcept;
  void release_free_segments(Pool& pool, int device) noexcept;

  mutable std::mutex mutex_;
  std::array<Pool, kMaxDevices> pools_;
};

// The one of this process; never destroyed, since tensors may outlive everything else.
CachingAllocator& caching_allocator();

}  // namespace moonlet::cuda
