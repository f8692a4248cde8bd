// tensor/core/platform/memory_wasm.cpp: WebAssembly's memory, which grows and never shrinks; blocks
// of it are malloc's.
#include <emscripten/heap.h>

#include <cstdlib>
#include <cstring>

#include "tensor/core/platform/memory.h"

namespace moonlet::platform {

int64_t address_space() noexcept { return static_cast<int64_t>(emscripten_get_heap_max()); }
int64_t machine_memory() noexcept { return address_space(); }

// Files are read where elsewhere they are mapped, so that any position will do.
uint64_t page_bytes() noexcept { return 65536; }

// aligned_alloc there wants whole multiples of the alignment.
void* allocate_aligned(size_t alignment, size_t bytes) noexcept {
  void* data = nullptr;
  return posix_memalign(&data, alignment, bytes) == 0 ? data : nullptr;
}

void* allocate_pages(size_t bytes, size_t alignment) noexcept {
  void* data = allocate_aligned(alignment, bytes);
  if (data != nullptr) std::memset(data, 0, bytes);
  return data;
}

void free_pages(void* data, size_t) noexcept { std::free(data); }

bool can_allocate_pages(size_t bytes) noexcept {
  void* data = std::malloc(bytes);
  std::free(data);
  return data != nullptr;
}

void free_aligned(void* data) noexcept { std::free(data); }

void open_unwinder() noexcept {}

}  // namespace moonlet::platform
