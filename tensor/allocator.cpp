// tensor/allocator.cpp: the table of allocators, one per kind of device.
#include "tensor/allocator.h"

#include <atomic>

#include "tensor/backend.h"

namespace moonlet {

namespace {
constinit std::atomic<Allocator*> allocators[kDeviceTypeCount] = {};
}  // namespace

Allocator& allocator_for(DeviceType type) {
  if (type == DeviceType::Batched) [[unlikely]]
    fail("a tensor inside vmap has no memory of its own");
  Allocator* found = allocators[static_cast<int>(type)].load(std::memory_order_acquire);
  if (found) [[likely]]
    return *found;
  if (type == DeviceType::CPU) return pooled_allocator();
  // The first tensor of a kind of device loads its backend, which sets the allocator.
  require_device({type, 0}, "cuda");
  return *allocators[static_cast<int>(type)].load(std::memory_order_acquire);
}

void set_allocator(DeviceType type, Allocator* allocator) noexcept {
  allocators[static_cast<int>(type)].store(allocator, std::memory_order_release);
}

}  // namespace moonlet
