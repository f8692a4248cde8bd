// tensor/memory/budget.cpp: charging storages to a budget.
#include "tensor/memory/budget.h"

namespace moonlet::memory {

constinit thread_local Budget* current_budget = nullptr;

Budget::Budget(int64_t limit) : limit_(limit) {
  for (int i = 0; i < kDeviceTypeCount; ++i) {
    allocators_[i].budget = this;
    allocators_[i].type = static_cast<DeviceType>(i);
  }
}

void Budget::charge(size_t bytes) {
  // Compared before it is added: a size from a script may be any. An interpreter's workers charge
  // it too.
  int64_t before = used();
  do {
    if (bytes > static_cast<size_t>(limit_) || static_cast<int64_t>(bytes) > limit_ - before)
      throw BudgetExceeded(text("out of memory: ", bytes, " bytes are wanted and ", before, " of ",
                                limit_, " in use, the limit of this interpreter"));
  } while (!used_.compare_exchange_weak(before, before + static_cast<int64_t>(bytes),
                                        std::memory_order_relaxed));
  references_.fetch_add(1, std::memory_order_relaxed);
}

void Budget::refund(size_t bytes) noexcept {
  used_.fetch_sub(static_cast<int64_t>(bytes), std::memory_order_relaxed);
  release();
}

void Budget::release() noexcept {
  if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
}

void* Budget::Charging::allocate(size_t bytes, Device device, void** context) {
  budget->charge(bytes);
  try {
    return allocator_for(type).allocate(bytes, device, context);
  } catch (const std::exception&) {
    budget->refund(bytes);
    throw;
  }
}

void Budget::Charging::deallocate(void* data, size_t bytes, Device device, void* context) noexcept {
  allocator_for(type).deallocate(data, bytes, device, context);
  budget->refund(bytes);
}

}  // namespace moonlet::memory
