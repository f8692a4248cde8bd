// tensor/memory/shortage.cpp: asks the system by mapping and unmapping.
#include "tensor/memory/shortage.h"

#include <execinfo.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>

namespace moonlet::memory {
namespace {

// The bytes of address space, INT64_MAX where it is not limited.
int64_t address_space() noexcept {
  rlimit limit{};
  const bool known = getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  return known ? static_cast<int64_t>(std::min<rlim_t>(limit.rlim_cur, INT64_MAX)) : INT64_MAX;
}

// The C library opens the unwinder when an exception first passes one of its own functions, and
// ends the process when it cannot. Here there is memory for it.
bool prepare() noexcept {
  void* frame = nullptr;
  backtrace(&frame, 1);
  return address_space() != INT64_MAX;
}

// What a new thread needs beside its stack.
constexpr size_t kThreadExtra = size_t{1} << 20;

size_t stack_bytes() noexcept {
  pthread_attr_t attributes;
  size_t bytes = size_t{8} << 20;
  if (pthread_getattr_default_np(&attributes) != 0) return bytes;
  pthread_attr_getstacksize(&attributes, &bytes);
  pthread_attr_destroy(&attributes);
  return bytes;
}

}  // namespace

namespace {
const int64_t most_keepable = address_space() == INT64_MAX ? INT64_MAX : address_space() / 16;
}  // namespace

std::atomic<bool> shortage{prepare()};
std::atomic<int64_t> keepable{most_keepable};

void note_shortage() noexcept {
  shortage.store(true, std::memory_order_relaxed);
  keepable.store(0, std::memory_order_relaxed);
}

void note_given(size_t bytes) noexcept {
  const int64_t now = keepable.load(std::memory_order_relaxed);
  if (now == most_keepable) return;
  const auto more = static_cast<int64_t>(bytes / 4);
  keepable.store(now < most_keepable - more ? now + more : most_keepable,
                 std::memory_order_relaxed);
}

bool can_map(size_t bytes) noexcept {
  void* position = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (position == MAP_FAILED) return false;
  munmap(position, bytes);
  return true;
}

int affordable_threads_when_short(int threads) noexcept {
  static const size_t each = stack_bytes() + kThreadExtra;
  return threads > 1 && !can_map(each * static_cast<size_t>(threads)) ? 1 : threads;
}

}  // namespace moonlet::memory
