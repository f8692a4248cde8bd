// tensor/runtime/allocator.h: where tensor memory comes from. One allocator per kind of device can
// be set; mapped files and foreign buffers are allocators of their own, held by the storage they
// back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "tensor/core/device.h"

namespace moonlet {

class Allocator {
 public:
  virtual ~Allocator() = default;
  // Returns at least `bytes` bytes aligned to 64; throws OutOfMemory. `context` is kept by the
  // storage and handed back to `deallocate`.
  virtual void* allocate(size_t bytes, Device device, void** context) = 0;
  virtual void deallocate(void* data, size_t bytes, Device device, void* context) noexcept = 0;
  // Gives memory kept for reuse back to the system.
  virtual void empty_cache() noexcept {}
  // Bytes kept for reuse.
  virtual int64_t cached_bytes() const noexcept { return 0; }
};

// The allocator of a kind of device. Asking for that of a backend opens it; throws when it cannot
// be used.
Allocator& allocator_for(DeviceType type);
// Replaces it for storages made from now on; the caller keeps it alive. Null restores the default.
void set_allocator(DeviceType type, Allocator* allocator) noexcept;
// That of the backend's own, while set_allocator has set none.
void set_default_allocator(DeviceType type, Allocator* allocator) noexcept;

// The default for the CPU: small blocks from per-thread free lists, large ones cached up to a
// limit, the rest from the system (huge pages where they help).
Allocator& pooled_allocator();

}  // namespace moonlet
