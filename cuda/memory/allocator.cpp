// cuda/memory/allocator.cpp: requests go to the part of their device.
#include "cuda/memory/allocator.h"

#include "cuda/memory/pinned.h"
#include "cuda/runtime/capability.h"
#include "cuda/runtime/device.h"
#include "cuda/runtime/fork.h"
#include "tensor/runtime/backend.h"

namespace moonlet::cuda {

DeviceMemory& CachingAllocator::of(int device) {
  check(device >= 0 && device < kMaxDevices, "cuda: there is no device cuda:", device);
  std::atomic<DeviceMemory*>& slot = devices_[static_cast<size_t>(device)];
  if (DeviceMemory* made = slot.load(std::memory_order_acquire)) return *made;
  const std::lock_guard lock(mutex_);
  if (!slot.load(std::memory_order_relaxed)) {
    DeviceMemory* fresh = new DeviceMemory(device);  // never destroyed, as the allocator
    fresh->record_history(history_);
    slot.store(fresh, std::memory_order_release);
  }
  return *slot.load(std::memory_order_relaxed);
}

void* CachingAllocator::allocate(size_t bytes, Device device, void** context) {
  require_device(device, "cuda");
  DeviceMemory& memory = of(device.index);
  require_code_for(device.index);
  if (bytes > (size_t{1} << 62))
    throw OutOfMemory(text("cuda: out of memory: ", bytes, " bytes expected on ", device));
  const DeviceGuard guard(device.index, "cuda");
  DeviceMemory::Block* block = memory.allocate(bytes, memory_stream(current_stream(device.index)));
  *context = block;
  return block->data;
}

void CachingAllocator::deallocate(void*, size_t, Device device, void* context) noexcept {
  if (!context) return;
  DeviceMemory* memory = devices_[static_cast<size_t>(device.index)].load();
  memory->deallocate(static_cast<DeviceMemory::Block*>(context));
}

void CachingAllocator::record_stream(const void* data, int device, cudaStream_t stream) {
  of(device).record_stream(data, stream);
}

void CachingAllocator::empty_cache() noexcept {
  empty_pinned_cache();
  for (const auto& slot : devices_)
    if (DeviceMemory* memory = slot.load()) memory->empty_cache();
}

int64_t CachingAllocator::cached_bytes() const noexcept {
  int64_t total = 0;
  for (const auto& slot : devices_)
    if (const DeviceMemory* memory = slot.load()) total += memory->cached_bytes();
  return total;
}

MemorySnapshot CachingAllocator::snapshot() {
  MemorySnapshot out;
  for (const auto& slot : devices_)
    if (DeviceMemory* memory = slot.load()) memory->add_to(out);
  return out;
}

void CachingAllocator::record_history(const MemoryHistory& history) {
  const std::lock_guard lock(mutex_);
  history_ = history;
  for (const auto& slot : devices_)
    if (DeviceMemory* memory = slot.load()) memory->record_history(history);
}

CachingAllocator& caching_allocator() {
  static CachingAllocator& allocator = *new CachingAllocator;
  return allocator;
}

}  // namespace moonlet::cuda
