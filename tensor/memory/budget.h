// tensor/memory/budget.h: a bound on the bytes that one interpreter takes: its storages, on all
// devices together, and what C++ code makes for its scripts beside the Lua heap: tensors, views,
// the tape, texts.
#pragma once

#include <atomic>
#include <cstdint>

#include "tensor/core/error.h"
#include "tensor/memory/account.h"
#include "tensor/runtime/allocator.h"

namespace moonlet::memory {

// An allocation would pass the bound.
class BudgetExceeded : public OutOfMemory {
 public:
  using OutOfMemory::OutOfMemory;
};

// Counted by who made it and by all that is charged to it, which may outlive that one and end on
// another thread. A thread on which the interpreter runs takes from it in steps (Account).
class Budget {
 public:
  explicit Budget(int64_t limit);
  Budget(const Budget&) = delete;
  Budget& operator=(const Budget&) = delete;

  int64_t limit() const noexcept { return limit_.load(std::memory_order_relaxed); }
  void set_limit(int64_t limit) noexcept { limit_.store(limit, std::memory_order_relaxed); }
  int64_t used() const noexcept { return used_.load(std::memory_order_relaxed); }
  // Allocates as `allocator_for` of that type does, and charges the bytes until they are given
  // back. Throws BudgetExceeded.
  Allocator& over(DeviceType type) noexcept { return allocators_[static_cast<int>(type)]; }
  // For memory that comes from elsewhere. `charge` throws BudgetExceeded; what it has charged, also
  // keeps this alive until the refund.
  void charge(size_t bytes);
  void refund(size_t bytes) noexcept;
  // A holder counts as one byte: the budget ends when nothing is charged and nobody holds it.
  void retain() noexcept { used_.fetch_add(1, std::memory_order_relaxed); }
  void release() noexcept { refund_now(1); }
  // Beyond so many bytes the collector is to look for garbage soon.
  void set_notice(int64_t bytes) noexcept { notice_.store(bytes, std::memory_order_relaxed); }

 private:
  friend void switch_account(Budget* next, int64_t* debt) noexcept;
  friend void draw(int64_t bytes);
  friend void give_back(Budget& payer, int64_t bytes) noexcept;

  class Charging final : public Allocator {
   public:
    void* allocate(size_t bytes, Device device, void** context) override;
    void deallocate(void* data, size_t bytes, Device device, void* context) noexcept override;
    Budget* budget = nullptr;
    DeviceType type = DeviceType::CPU;
  };

  ~Budget() = default;
  bool take(int64_t bytes) noexcept;
  void refund_now(int64_t bytes) noexcept;
  [[noreturn]] void refuse(size_t bytes) const;

  std::atomic<int64_t> limit_;
  std::atomic<int64_t> used_{1};
  std::atomic<int64_t> notice_;
  Charging allocators_[kMaxDeviceTypes];
};

// While alive, what this thread takes may pass the bound: for what must not fail half way. What it
// takes next fails then.
class Overdraft {
 public:
  Overdraft() noexcept;
  ~Overdraft();
  Overdraft(const Overdraft&) = delete;
  Overdraft& operator=(const Overdraft&) = delete;

 private:
  const bool before_;
};

// Whether scripts on this thread must not see what memory held before: their interpreter has
// limits, so the host does not trust them.
inline bool clears_memory() noexcept { return account.budget != nullptr; }

}  // namespace moonlet::memory
