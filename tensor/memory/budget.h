// tensor/memory/budget.h: a bound on the bytes that the storages of one interpreter take, together
// on all devices.
#pragma once

#include <atomic>
#include <cstdint>

#include "tensor/allocator.h"
#include "tensor/error.h"

namespace moonlet::memory {

// An allocation would pass the bound.
class BudgetExceeded : public OutOfMemory {
 public:
  using OutOfMemory::OutOfMemory;
};

// Counted by who made it and by each storage charged to it, which may outlive that one and end on
// another thread.
class Budget {
 public:
  explicit Budget(int64_t limit);
  Budget(const Budget&) = delete;
  Budget& operator=(const Budget&) = delete;

  int64_t limit() const noexcept { return limit_; }
  int64_t used() const noexcept { return used_.load(std::memory_order_relaxed); }
  // Allocates as `allocator_for` of that type does, and charges the bytes until they are given
  // back. Throws BudgetExceeded.
  Allocator& over(DeviceType type) noexcept { return allocators_[static_cast<int>(type)]; }
  // For memory that comes from elsewhere. `charge` throws BudgetExceeded; what it has charged, also
  // keeps this alive until the refund.
  void charge(size_t bytes);
  void refund(size_t bytes) noexcept;
  void retain() noexcept { references_.fetch_add(1, std::memory_order_relaxed); }
  void release() noexcept;

 private:
  class Charging final : public Allocator {
   public:
    void* allocate(size_t bytes, Device device, void** context) override;
    void deallocate(void* data, size_t bytes, Device device, void* context) noexcept override;
    Budget* budget = nullptr;
    DeviceType type = DeviceType::CPU;
  };

  ~Budget() = default;

  const int64_t limit_;
  std::atomic<int64_t> used_{0};
  std::atomic<int64_t> references_{1};
  Charging allocators_[kDeviceTypeCount];
};

// That of the interpreter that runs on this thread, if it has one: new storages are charged to it.
extern constinit thread_local Budget* current_budget;

}  // namespace moonlet::memory
