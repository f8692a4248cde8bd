// tensor/core/platform/memory_windows.cpp: memory by VirtualAlloc.
#include <malloc.h>
#include <windows.h>

#include <algorithm>

#include "tensor/core/platform/memory.h"

namespace moonlet::platform {

int64_t address_space() noexcept { return INT64_MAX; }

int64_t machine_memory() noexcept {
  MEMORYSTATUSEX status{};
  status.dwLength = sizeof status;
  if (!GlobalMemoryStatusEx(&status)) return INT64_MAX;
  return static_cast<int64_t>(std::max(status.ullTotalPageFile, status.ullTotalPhys));
}

// A whole range is given back at once, so it begins where the system says: at a multiple of 64 KiB.
uint64_t page_bytes() noexcept {
  SYSTEM_INFO info;
  GetSystemInfo(&info);
  return info.dwAllocationGranularity;
}

void* allocate_pages(size_t bytes, size_t) noexcept {
  return VirtualAlloc(nullptr, bytes, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE);
}

void free_pages(void* data, size_t) noexcept { VirtualFree(data, 0, MEM_RELEASE); }

bool can_allocate_pages(size_t bytes) noexcept {
  void* data = allocate_pages(bytes, 0);
  if (data != nullptr) free_pages(data, bytes);
  return data != nullptr;
}

void* allocate_aligned(size_t alignment, size_t bytes) noexcept {
  return _aligned_malloc(bytes, alignment);
}

void free_aligned(void* data) noexcept { _aligned_free(data); }

void open_unwinder() noexcept {}

}  // namespace moonlet::platform
