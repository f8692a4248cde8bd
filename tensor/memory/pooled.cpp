// tensor/memory/pooled.cpp: the CPU's default allocator. Blocks below 16 KiB come from per-thread
// free lists; larger ones are kept for reuse, of all threads and within a bound on live plus kept
// bytes: to fault pages in again takes longer than most ops that write them.
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <list>
#include <map>
#include <mutex>

#include "tensor/core/error.h"
#include "tensor/core/platform/memory.h"
#include "tensor/memory/free_list.h"
#include "tensor/memory/shortage.h"
#include "tensor/runtime/allocator.h"

namespace moonlet {

namespace {

constexpr size_t kSmall = 1024;
constexpr size_t kLarge = 16 * 1024;
constexpr size_t kHuge = 2u << 20;
constexpr size_t kHugePage = 2u << 20;
constexpr size_t kPage = 4096;
// Live plus kept bytes stay below the larger of this and twice the live bytes. Where memory is
// short, others want it, too: no more is kept than a quarter of the live bytes or what is keepable.
constexpr int64_t kFloor = int64_t{256} << 20;

struct SmallTag {
  static constexpr size_t block_size(int cls) { return static_cast<size_t>(cls + 1) * 64; }
};
using SmallLists = memory::FreeLists<SmallTag, kSmall / 64, size_t{4} << 20>;
int small_class(size_t bytes) { return bytes == 0 ? 0 : static_cast<int>((bytes - 1) / 64); }

// Blocks between kSmall and kLarge, in steps of 1 KiB.
constexpr size_t kStep = 1024;
struct MediumTag {
  static constexpr size_t block_size(int cls) { return static_cast<size_t>(cls + 1) * kStep; }
};
using MediumLists = memory::FreeLists<MediumTag, kLarge / kStep, size_t{1} << 20>;
int medium_class(size_t bytes) { return static_cast<int>((bytes - 1) / kStep); }

size_t round_up(size_t value, size_t unit) { return (value + unit - 1) / unit * unit; }

// Memory for a large block; null when there is none. From 4 MiB on it is aligned to a huge page.
void* system_allocate(size_t capacity) noexcept {
  return capacity < kHuge ? platform::allocate_aligned(64, capacity)
                          : platform::allocate_pages(capacity, kHugePage);
}

// Pages are reserved lazily, so a larger request would succeed and the process be killed when it is
// written to.
int64_t machine_memory() noexcept {
  static const int64_t bytes = platform::machine_memory();
  return bytes;
}

void system_free(void* data, size_t capacity) noexcept {
  if (capacity < kHuge)
    platform::free_aligned(data);
  else
    platform::free_pages(data, capacity);
}

class PooledAllocator final : public Allocator {
 public:
  void* allocate(size_t bytes, Device, void** context) override {
    *context = nullptr;
    void* data;
    if (bytes <= kSmall)
      data = SmallLists::get(small_class(bytes));
    else if (bytes < kLarge)
      // A sanitizer sees writes past the end only when the block is not rounded up.
      data = MOONLET_REUSE_BLOCKS ? MediumLists::get(medium_class(bytes))
                                  : std::aligned_alloc(64, round_up(bytes, 64));
    else
      return allocate_large(bytes, context);
    if (!data) [[unlikely]] {
      empty_cache();
      data = std::aligned_alloc(64, round_up(bytes == 0 ? 1 : bytes, bytes <= kSmall ? 64 : kStep));
      if (!data) out_of_memory(bytes);
    }
    return data;
  }

  void deallocate(void* data, size_t bytes, Device, void* context) noexcept override {
    if (bytes <= kSmall)
      SmallLists::put(data, small_class(bytes));
    else if (bytes < kLarge)
      MediumLists::put(data, medium_class(bytes));
    else
      keep(data, reinterpret_cast<size_t>(context));
  }

  void empty_cache() noexcept override {
    std::lock_guard lock(mutex_);
    while (!kept_.empty()) drop(kept_.begin());
  }

  int64_t cached_bytes() const noexcept override { return cached_.load(std::memory_order_relaxed); }

 private:
  struct Block {
    void* data;
    size_t capacity;
    std::multimap<size_t, std::list<Block>::iterator>::iterator by_size;
  };
  using Blocks = std::list<Block>;

  [[noreturn, gnu::cold]] static void out_of_memory(size_t bytes) {
    memory::note_shortage();
    throw OutOfMemory(text("out of memory: could not allocate ", bytes, " bytes on cpu"));
  }

  void* allocate_large(size_t bytes, void** context) {
    if (bytes > SIZE_MAX / 4) out_of_memory(bytes);
    const size_t wanted = round_up(bytes, kPage);
    {
      std::lock_guard lock(mutex_);
      const auto found = by_size_.lower_bound(wanted);
      // A block at most an eighth too large is good enough.
      if (found != by_size_.end() && found->first <= wanted + wanted / 8) {
        void* data = found->second->data;
        *context = reinterpret_cast<void*>(found->first);
        live_ += static_cast<int64_t>(found->first);
        forget(found->second);
        return data;
      }
      live_ += static_cast<int64_t>(wanted);
      trim();
    }
    void* data = fits(wanted) ? system_allocate(wanted) : nullptr;
    if (!data) {
      empty_cache();
      if (fits(wanted)) data = system_allocate(wanted);
    }
    if (!data) {
      std::lock_guard lock(mutex_);
      live_ -= static_cast<int64_t>(wanted);
      out_of_memory(bytes);
    }
    memory::note_given(wanted);
    *context = reinterpret_cast<void*>(wanted);
    return data;
  }

  void keep(void* data, size_t capacity) noexcept {
    std::lock_guard lock(mutex_);
    live_ -= static_cast<int64_t>(capacity);
    if (!MOONLET_REUSE_BLOCKS || static_cast<int64_t>(capacity) > limit())
      return system_free(data, capacity);
    try {
      kept_.push_back({data, capacity, {}});
      try {
        // Before its equals: what was freed last is taken first, while it is in the cache.
        kept_.back().by_size =
            by_size_.emplace_hint(by_size_.lower_bound(capacity), capacity, std::prev(kept_.end()));
      } catch (const std::bad_alloc&) {
        kept_.pop_back();
        throw;
      }
    } catch (const std::bad_alloc&) {
      return system_free(data, capacity);
    }
    cached_.store(cached_.load(std::memory_order_relaxed) + static_cast<int64_t>(capacity),
                  std::memory_order_relaxed);
    trim();
  }

  // Whether live blocks, which count `wanted` already, and kept ones fit into the machine.
  bool fits(size_t wanted) {
    std::lock_guard lock(mutex_);
    const int64_t all = live_ + cached_.load(std::memory_order_relaxed);
    return wanted <= static_cast<size_t>(machine_memory()) && all <= machine_memory();
  }
  int64_t limit() const {
    return std::min(std::max(kFloor - live_, live_),
                    std::max(live_ / 4, memory::keepable.load(std::memory_order_relaxed)));
  }
  // Gives the blocks that waited longest back until the bound holds.
  void trim() noexcept {
    while (!kept_.empty() && cached_.load(std::memory_order_relaxed) > limit()) drop(kept_.begin());
  }
  void drop(Blocks::iterator block) noexcept {
    system_free(block->data, block->capacity);
    forget(block);
  }
  void forget(Blocks::iterator block) noexcept {
    cached_.store(cached_.load(std::memory_order_relaxed) - static_cast<int64_t>(block->capacity),
                  std::memory_order_relaxed);
    by_size_.erase(block->by_size);
    kept_.erase(block);
  }

  std::mutex mutex_;
  Blocks kept_;  // oldest first
  std::multimap<size_t, Blocks::iterator> by_size_;
  std::atomic<int64_t> cached_{0};
  int64_t live_ = 0;  // of large blocks
};

}  // namespace

Allocator& pooled_allocator() {
  // Never destroyed: storages may outlive static objects.
  static PooledAllocator* const pooled = new PooledAllocator;
  return *pooled;
}

}  // namespace moonlet
