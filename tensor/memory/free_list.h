// tensor/memory/free_list.h: per-thread stacks of equal-sized blocks, so that small objects are
// reused without a lock. Safe while a thread ends: its blocks go back and later ones bypass it.
// What scripts cause to be made is charged to their interpreter (tensor/memory/account.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

#include "tensor/memory/account.h"

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

// What a block of so many bytes takes of the system's memory, which aligns each.
constexpr int64_t taken_by(size_t block) { return static_cast<int64_t>(block) + 64; }

// At the end of a block: who pays for it.
struct Payer {
  static constexpr size_t kBytes = sizeof(Budget*);
  static Budget*& of(void* block, size_t at) noexcept {
    return *reinterpret_cast<Budget**>(static_cast<char*>(block) + at);
  }
};

// One stack of blocks that fit a T.
template <class T, size_t Bytes = size_t{4} << 20>
class FreeListOf {
  static constexpr size_t kBlock = (sizeof(T) + Payer::kBytes + 63) / 64 * 64;
  struct Tag {
    static constexpr size_t block_size(int) { return kBlock; }
  };
  using Lists = FreeLists<Tag, 1, Bytes>;
  static constexpr size_t kPayer = kBlock - Payer::kBytes;

 public:
  // Throws std::bad_alloc or BudgetExceeded.
  static void* get() {
    Budget* const payer = charge(taken_by(kBlock));
    void* block = Lists::get(0);
    if (!block) [[unlikely]] {
      credit(payer, taken_by(kBlock));
      throw std::bad_alloc();
    }
    Payer::of(block, kPayer) = payer;
    return block;
  }
  static void put(void* block) noexcept {
    credit(Payer::of(block, kPayer), taken_by(kBlock));
    Lists::put(block, 0);
  }
};

// Blocks of any size; those up to 1 KiB come from shared stacks.
class SmallBlocks {
  static constexpr size_t kLargest = 1024;
  struct Tag {
    static constexpr size_t block_size(int cls) { return static_cast<size_t>(cls + 1) * 64; }
  };
  using Lists = FreeLists<Tag, kLargest / 64, size_t{1} << 20>;
  static int class_of(size_t bytes) { return static_cast<int>((bytes - 1) / 64); }
  // The payer stands behind so many bytes.
  static size_t payer_at(size_t bytes) { return (bytes + 7) / 8 * 8; }
  static int64_t price(size_t whole) {
    return taken_by(whole > kLargest ? whole : Tag::block_size(class_of(whole)));
  }

 public:
  // Throws std::bad_alloc or BudgetExceeded.
  static void* get(size_t bytes) {
    const size_t at = payer_at(bytes), whole = at + Payer::kBytes;
    Budget* const payer = charge(price(whole));
    void* block =
        whole > kLargest ? ::operator new(whole, std::nothrow) : Lists::get(class_of(whole));
    if (!block) [[unlikely]] {
      credit(payer, price(whole));
      throw std::bad_alloc();
    }
    Payer::of(block, at) = payer;
    return block;
  }
  static void put(void* block, size_t bytes) noexcept {
    const size_t at = payer_at(bytes), whole = at + Payer::kBytes;
    credit(Payer::of(block, at), price(whole));
    if (whole > kLargest)
      ::operator delete(block);
    else
      Lists::put(block, class_of(whole));
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

// A shared object in one of these blocks.
template <class T, class... Arguments>
std::shared_ptr<T> make_shared(Arguments&&... arguments) {
  return std::allocate_shared<T>(SmallBlockAllocator<std::remove_const_t<T>>(),
                                 std::forward<Arguments>(arguments)...);
}

// What a container or a text that one call makes takes while it grows, for those that have no
// allocator of their own: charged in steps until this ends.
class Growth {
 public:
  Growth() = default;
  Growth(const Growth&) = delete;
  Growth& operator=(const Growth&) = delete;
  ~Growth() { credit(payer_, charged_); }
  // It takes so many bytes now, or will. Throws BudgetExceeded, and Interrupted where a stop is
  // requested.
  void reach(size_t bytes) {
    if (static_cast<int64_t>(bytes) > charged_) [[unlikely]]
      more(static_cast<int64_t>(bytes));
  }

 private:
  void more(int64_t bytes);
  Budget* payer_ = nullptr;
  int64_t charged_ = 0;
};

}  // namespace moonlet::memory
