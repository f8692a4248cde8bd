// cuda/memory/device_memory.h: the caching allocator of one device: blocks cut from larger
// segments, kept per stream when freed, joined with their free neighbours.
#pragma once

#include <cuda_runtime.h>

#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <unordered_map>
#include <vector>

#include "cuda/memory/memory_settings.h"
#include "cuda/memory/memory_statistics.h"
#include "tensor/runtime/memory_report.h"

namespace moonlet::cuda {

// Sizes and rules are PyTorch's: requests are rounded to 512 bytes; up to 1 MiB they come from
// segments of 2 MiB, below 10 MiB from segments of 20 MiB, and from segments of their own size,
// rounded to 2 MiB, above. A request takes the smallest free block of its stream that is large
// enough, and what it leaves is cut off where it is worth keeping.
class DeviceMemory {
 public:
  struct Block {
    char* data = nullptr;
    size_t size = 0;
    cudaStream_t stream = nullptr;
    Block* before = nullptr;  // the neighbours in the same segment
    Block* after = nullptr;
    bool small = false;
    bool allocated = false;
    int events = 0;                  // of other streams, that a freed block waits for
    size_t requested = 0;            // bytes asked for
    size_t freed_at = 0;             // the count of allocations then, for garbage collection
    std::vector<cudaStream_t> uses;  // other streams that work with it
    MemoryPosition position;

    bool is_split() const { return before != nullptr || after != nullptr; }
    bool is_free() const { return !allocated && events == 0 && uses.empty(); }
  };

  explicit DeviceMemory(int device) : device_(device) {}

  // Throws OutOfMemory, which names the bytes wanted, free, in use and cached, and who holds most.
  // The device must be current.
  Block* allocate(size_t bytes, cudaStream_t stream);
  // The block is reused by work in its stream at once; where other streams use it, when they have
  // done what they had to do until now.
  void deallocate(Block* block) noexcept;
  // Notes that work in `stream` uses the block that begins at `data`, where one does.
  void record_stream(const void* data, cudaStream_t stream);
  // While the memory of a stream is held, it is neither given back nor hidden where it is free.
  void hold(cudaStream_t stream, bool holds);
  // Gives free segments back to the device, after waiting for those that streams still use.
  void empty_cache() noexcept;

  MemoryStatistics statistics() const;
  int64_t cached_bytes() const noexcept;
  void reset_peaks();
  void reset_accumulated();
  // The most bytes to take from the device, which are that share of its own.
  void set_limit(double fraction, size_t bytes);
  double fraction() const;
  void record_history(const MemoryHistory& history);
  void add_to(MemorySnapshot& snapshot);

 private:
  // Free blocks by stream, then size, then position.
  struct Order {
    bool operator()(const Block* a, const Block* b) const;
  };
  using FreeBlocks = std::set<Block*, Order>;
  using Waiting = std::pair<cudaEvent_t, Block*>;

  FreeBlocks& pool_of(const Block& block) { return block.small ? small_ : large_; }
  size_t rounded_size(size_t bytes) const;
  Block* obtain(size_t size, cudaStream_t stream);
  Block* find(size_t size, cudaStream_t stream, bool restricted);
  Block* new_segment(size_t size, cudaStream_t stream);
  Block* without_cache(size_t size, cudaStream_t stream);
  bool should_split(const Block& block, size_t size) const;
  void take(Block* block, size_t size);
  [[noreturn]] void out_of_memory(size_t bytes, cudaStream_t stream);

  void give_back(Block* block);
  size_t join(Block* block, Block* neighbour);
  bool note_events(Block* block);
  bool is_put_off(const Block& block) const;
  void note_put_off();
  cudaEvent_t new_event();
  void collect_passed();
  void wait_for_events();
  void passed(const Waiting& waiting);

  bool may_release(const Block& block) const;
  bool release(Block* segment);
  bool release_large_enough(size_t bytes);
  void release_all();
  void collect_garbage(size_t size);

  void note(const char* action, uint64_t address, size_t size, cudaStream_t stream,
            const MemoryPosition& position);
  MemoryPosition position_of(bool wanted) const;

  const int device_;
  mutable std::mutex mutex_;
  FreeBlocks small_, large_;
  std::unordered_map<const void*, Block*> active_;  // by where they begin
  std::map<cudaStream_t, std::deque<Waiting>> waiting_;
  std::vector<Block*> put_off_;  // freed while a stream that uses them was captured
  std::set<cudaStream_t> held_;
  std::vector<cudaEvent_t> events_;  // made and not in use
  MemoryCounters counters_;
  double fraction_ = 1;
  size_t limit_ = ~size_t{0};
  size_t allocations_ = 0;
  MemoryHistory history_;
  std::deque<MemoryEvent> trace_;
};

}  // namespace moonlet::cuda
