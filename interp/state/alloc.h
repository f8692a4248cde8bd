// interp/state/alloc.h: the allocator behind one Lua state: free lists for small blocks, counted
// bytes.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace moonlet {

// Serves Lua's objects. Blocks of up to 256 bytes come from per-state free lists in steps of 16
// bytes, larger ones from malloc. Not thread-safe: a Lua state is used by one thread at a time.
class BlockAllocator {
 public:
  BlockAllocator() = default;
  BlockAllocator(const BlockAllocator&) = delete;
  BlockAllocator& operator=(const BlockAllocator&) = delete;
  ~BlockAllocator();

  // A lua_Alloc; `self` is the BlockAllocator. Returns null when memory is short.
  static void* allocate(void* self, void* block, size_t old_size, size_t new_size) noexcept;

  // Bytes that Lua holds now.
  int64_t bytes() const noexcept { return bytes_; }

  // Refuses blocks that would make it more than `limit`. Lua then collects all garbage and asks
  // again; a second refusal is a memory error, before which `exceeded(data)` is called.
  void set_limit(int64_t limit, void (*exceeded)(void*), void* data) noexcept {
    if (limit != INT64_MAX && total_ == nullptr) count_in(own_total_);
    limit_ = given_limit_ = limit;
    exceeded_ = exceeded;
    data_ = data;
  }
  // Limits are compared with the bytes of both together, where the other one has a limit. For a new
  // allocator, which ends first; several threads may use those of one total.
  void count_with(BlockAllocator& other) noexcept {
    if (other.total_ != nullptr) count_in(*other.total_);
  }
  // Whether blocks were refused since the last call; from now on the limit holds again, which is
  // raised a little when it is exceeded, for the handling of the error.
  bool end_refusals() noexcept;

 private:
  static constexpr size_t kStep = 16;
  static constexpr size_t kLargest = 256;
  static constexpr size_t kClasses = kLargest / kStep;
  static constexpr size_t kChunkBytes = 32 * 1024;

  struct FreeBlock {
    FreeBlock* next;
  };
  struct alignas(16) Chunk {
    Chunk* next;
  };

  static size_t size_class(size_t size) noexcept { return (size - 1) / kStep; }
  void count_in(std::atomic<int64_t>& total) noexcept {
    total_ = &total;
    total.fetch_add(bytes_, std::memory_order_relaxed);
  }
  void add(int64_t bytes) noexcept {
    bytes_ += bytes;
    if (total_ != nullptr) [[unlikely]]
      total_->fetch_add(bytes, std::memory_order_relaxed);
  }
  // Whether `more` bytes are within the limit, for a block of `size`.
  bool is_granted(const void* block, size_t more, size_t size) noexcept;
  void* take(size_t size) noexcept;
  void give(void* block, size_t size) noexcept;
  void* refill(size_t index) noexcept;
  void* resize(void* block, size_t old_size, size_t new_size) noexcept;
  void refuse(const void* block, size_t new_size) noexcept;

  std::array<FreeBlock*, kClasses> free_{};
  Chunk* chunks_ = nullptr;
  char* fresh_ = nullptr;
  char* fresh_end_ = nullptr;
  int64_t bytes_ = 0;
  std::atomic<int64_t> own_total_{0};
  std::atomic<int64_t>* total_ = nullptr;  // what is compared with a limit
  int64_t limit_ = INT64_MAX;
  int64_t given_limit_ = INT64_MAX;
  void (*exceeded_)(void*) = nullptr;
  void* data_ = nullptr;
  // The request that was refused last, until one is granted; a size of 0 stands for none.
  const void* refused_block_ = nullptr;
  size_t refused_size_ = 0;
  bool refused_ = false;
};

}  // namespace moonlet
