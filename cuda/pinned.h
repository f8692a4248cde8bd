// cuda/pinned.h: page-locked memory of the host, from which copies to a device need no buffer.
#pragma once

#include <cstddef>

namespace moonlet::cuda {

// At least `bytes` bytes, more than 0, for all devices. Throws OutOfMemory.
void* pin_memory(size_t bytes);
// Blocks are kept for reuse, as page-locking takes long: copies have ended when they return.
void unpin_memory(void* data, size_t bytes) noexcept;
bool is_pinned(const void* data) noexcept;
// Gives kept blocks back to the system.
void empty_pinned_cache() noexcept;

}  // namespace moonlet::cuda
