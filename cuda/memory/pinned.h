// cuda/memory/pinned.h: page-locked memory of the host, from which copies to a device need no
// buffer.
#pragma once

#include <cstddef>

#include "tensor/runtime/streams.h"

namespace moonlet::cuda {

// At least `bytes` bytes, more than 0, for all devices. Throws OutOfMemory.
void* pin_memory(size_t bytes);
// Blocks are kept for reuse, as page-locking takes long. One that copies may still use is taken
// again when these are done.
void unpin_memory(void* data, size_t bytes) noexcept;
// A copy in `stream` that nobody waits for uses that memory. Nothing for memory that is not of
// here.
void note_pinned_use(const void* data, DeviceStream stream);
bool is_pinned(const void* data) noexcept;
// Gives kept blocks back to the system.
void empty_pinned_cache() noexcept;

}  // namespace moonlet::cuda
