// tensor/memory/free_list.h: per-thread stacks of equal-sized blocks, so that small objects are
// reused without a lock. Safe while a thread ends: its blocks go back and later ones bypass it.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <new>

#if defined(__SANITIZE_ADDRESS__)
#define MOONLET_REUSE_BLOCKS 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define MOONLET_REUSE_BLOCKS 0
#endif
#endif
#ifndef MOONLET_REUSE_BLOCKS
#define MOONLET_REUSE_BLOCKS 1
#endif

namespace moonlet::memory {

// `Classes` stacks of at most `Bytes` bytes of blocks each; that is generous, because a garbage
// collector frees many blocks in a row. Tag tells lists apart, and its `block_size(i)` is the size
// of the blocks of class i, a multiple of 64.
template <class Tag, int Classes, size_t Bytes>
class FreeLists {
 public:
  // A 64-byte aligned block; null when the system has none left.
  static void* get(int cls) noexcept {
    State& s = state_;
    if (void* block = s.head[cls]) {
      s.head[cls] = *static_cast<void**>(block);
      --s.count[cls];
      return block;
    }
    return std::aligned_alloc(64, Tag::block_size(cls));
  }

  static void put(void* block, int cls) noexcept {
    State& s = state_;
    if (!MOONLET_REUSE_BLOCKS || s.count[cls] >= static_cast<int>(Bytes / Tag::block_size(cls)) ||
        s.mode != kReady) {
      if (!MOONLET_REUSE_BLOCKS || s.mode != kFresh) return std::free(block);
      watch_thread_end();
    }
    *static_cast<void**>(block) = s.head[cls];
    s.head[cls] = block;
    ++s.count[cls];
  }

 private:
  enum Mode : int { kFresh, kReady, kEnded };
  // Trivially destructible, so it stays readable while the thread's other objects end.
  struct State {
    void* head[Classes];
    int count[Classes];
    Mode mode;
  };
  struct Guard {
    ~Guard() {
      State& s = state_;
      s.mode = kEnded;
      for (int i = 0; i < Classes; ++i) {
        while (void* block = s.head[i]) {
          s.head[i] = *static_cast<void**>(block);
          std::free(block);
        }
        s.count[i] = 0;
      }
    }
  };
  [[gnu::noinline]] static void watch_thread_end() noexcept {
    thread_local Guard guard;
    (void)&guard;
    state_.mode = kReady;
  }
  static inline constinit thread_local State state_ = {};
};

// One stack of blocks that fit a T.
template <class T, size_t Bytes = size_t{4} << 20>
class FreeListOf {
  struct Tag {
    static constexpr size_t block_size(int) { return (sizeof(T) + 63) / 64 * 64; }
  };
  using Lists = FreeLists<Tag, 1, Bytes>;

 public:
  static void* get() {
    void* block = Lists::get(0);
    if (!block) [[unlikely]]
      throw std::bad_alloc();
    return block;
  }
  static void put(void* block) noexcept { Lists::put(block, 0); }
};

// Blocks of any size; those up to 1 KiB come from shared stacks.
class SmallBlocks {
  static constexpr size_t kLargest = 1024;
  struct Tag {
    static constexpr size_t block_size(int cls) { return static_cast<size_t>(cls + 1) * 64; }
  };
  using Lists = FreeLists<Tag, kLargest / 64, size_t{1} << 20>;
  static int class_of(size_t bytes) { return bytes == 0 ? 0 : static_cast<int>((bytes - 1) / 64); }

 public:
  static void* get(size_t bytes) {
    if (bytes > kLargest) return ::operator new(bytes);
    void* block = Lists::get(class_of(bytes));
    if (!block) [[unlikely]]
      throw std::bad_alloc();
    return block;
  }
  static void put(void* block, size_t bytes) noexcept {
    if (bytes > kLargest)
      ::operator delete(block);
    else
      Lists::put(block, class_of(bytes));
  }
};

// The same for the standard containers.
template <class T>
struct SmallBlockAllocator {
  using value_type = T;
  SmallBlockAllocator() = default;
  template <class U>
  SmallBlockAllocator(const SmallBlockAllocator<U>&) {}
  T* allocate(size_t count) { return static_cast<T*>(SmallBlocks::get(count * sizeof(T))); }
  void deallocate(T* data, size_t count) noexcept { SmallBlocks::put(data, count * sizeof(T)); }
  template <class U>
  bool operator==(const SmallBlockAllocator<U>&) const {
    return true;
  }
};

}  // namespace moonlet::memory
