// tensor/runtime/allocator.cpp: the table of allocators, one per kind of device.
#include "tensor/runtime/allocator.h"

#include <atomic>

#include "tensor/runtime/backend.h"

namespace moonlet {

namespace {
// Those that somebody has set, and those that backends bring.
constinit std::atomic<Allocator*> allocators[kMaxDeviceTypes] = {};
constinit std::atomic<Allocator*> defaults[kMaxDeviceTypes] = {};
}  // namespace

Allocator& allocator_for(DeviceType type) {
  if (type == DeviceType::Batched) [[unlikely]]
    fail("a tensor inside vmap has no memory of its own");
  const int i = static_cast<int>(type);
  Allocator* found = allocators[i].load(std::memory_order_acquire);
  if (found) [[likely]]
    return *found;
  if (type == DeviceType::CPU) return pooled_allocator();
  // The first tensor of a kind of device opens its backend, which sets the default.
  if (!defaults[i].load(std::memory_order_acquire)) require_device({type, 0}, name(type));
  return *defaults[i].load(std::memory_order_acquire);
}

void set_allocator(DeviceType type, Allocator* allocator) noexcept {
  allocators[static_cast<int>(type)].store(allocator, std::memory_order_release);
}

void set_default_allocator(DeviceType type, Allocator* allocator) noexcept {
  defaults[static_cast<int>(type)].store(allocator, std::memory_order_release);
}

}  // namespace moonlet
