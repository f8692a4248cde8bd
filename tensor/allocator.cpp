// tensor/allocator.cpp: the table of allocators, one per kind of device.
#include "tensor/allocator.h"

#include <atomic>

#include "tensor/error.h"

namespace moonlet {

namespace {
constinit std::atomic<Allocator*> allocators[kDeviceTypeCount] = {};
}  // namespace

Allocator& allocator_for(DeviceType type) {
  Allocator* found = allocators[static_cast<int>(type)].load(std::memory_order_acquire);
  if (found) [[likely]]
    return *found;
  check(type == DeviceType::CPU, "cuda: the CUDA backend is not loaded");
  return pooled_allocator();
}

void set_allocator(DeviceType type, Allocator* allocator) noexcept {
  allocators[static_cast<int>(type)].store(allocator, std::memory_order_release);
}

}  // namespace moonlet
