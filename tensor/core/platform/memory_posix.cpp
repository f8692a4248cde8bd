// tensor/core/platform/memory_posix.cpp: memory by mmap.
#include <execinfo.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/sysinfo.h>
#elif defined(__APPLE__)
#include <sys/sysctl.h>
#endif

#include <algorithm>
#include <cstdlib>

#include "tensor/core/platform/memory.h"

namespace moonlet::platform {

int64_t address_space() noexcept {
  rlimit limit{};
  const bool known = getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  return known ? static_cast<int64_t>(std::min<rlim_t>(limit.rlim_cur, INT64_MAX)) : INT64_MAX;
}

int64_t machine_memory() noexcept {
#ifdef __linux__
  struct sysinfo info {};
  if (sysinfo(&info) != 0) return INT64_MAX;
  return static_cast<int64_t>((info.totalram + info.totalswap) * info.mem_unit);
#elif defined(__APPLE__)
  // Its swap grows with its disk.
  int64_t bytes = 0;
  size_t size = sizeof bytes;
  return sysctlbyname("hw.memsize", &bytes, &size, nullptr, 0) == 0 ? 2 * bytes : INT64_MAX;
#else
  return INT64_MAX;
#endif
}

uint64_t page_bytes() noexcept {
  static const long bytes = ::sysconf(_SC_PAGESIZE);
  return bytes > 0 ? static_cast<uint64_t>(bytes) : 65536;
}

void* allocate_pages(size_t bytes, size_t alignment) noexcept {
  void* raw = mmap(nullptr, bytes + alignment, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (raw == MAP_FAILED) return nullptr;
  char* begin = static_cast<char*>(raw);
  const auto address = reinterpret_cast<uintptr_t>(raw);
  char* data = begin + ((address + alignment - 1) / alignment * alignment - address);
  if (data != begin) munmap(begin, data - begin);
  char* end = begin + bytes + alignment;
  if (data + bytes != end) munmap(data + bytes, end - (data + bytes));
#ifdef MADV_HUGEPAGE
  madvise(data, bytes, MADV_HUGEPAGE);
#endif
  return data;
}

void free_pages(void* data, size_t bytes) noexcept { munmap(data, bytes); }

bool can_allocate_pages(size_t bytes) noexcept {
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) return false;
  munmap(data, bytes);
  return true;
}

void* allocate_aligned(size_t alignment, size_t bytes) noexcept {
  return std::aligned_alloc(alignment, bytes);
}

void free_aligned(void* data) noexcept { std::free(data); }

// It opens the unwinder's library when an exception first passes one of its own functions, and ends
// the process when it cannot.
void open_unwinder() noexcept {
  void* frame = nullptr;
  backtrace(&frame, 1);
}

}  // namespace moonlet::platform
