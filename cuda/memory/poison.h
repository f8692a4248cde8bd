// cuda/memory/poison.h: on the emulated device AddressSanitizer sees what is read of free blocks
// and behind the end of those in use; not where its streams are queues, whose work may use a block
// that the host has freed.
#pragma once

#include <cstddef>

#if defined(MOONLET_CUDA_EMULATED) && defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>

#include "cuda/emulated/queue.h"
#endif

namespace moonlet::cuda {

#if defined(MOONLET_CUDA_EMULATED) && defined(__SANITIZE_ADDRESS__)
inline void hide(void* data, size_t bytes) {
  if (!emulated::runs_later()) ASAN_POISON_MEMORY_REGION(data, bytes);
}
inline void show(void* data, size_t bytes) { ASAN_UNPOISON_MEMORY_REGION(data, bytes); }
#else
inline void hide(void*, size_t) {}
inline void show(void*, size_t) {}
#endif

}  // namespace moonlet::cuda
