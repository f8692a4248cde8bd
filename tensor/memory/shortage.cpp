// tensor/memory/shortage.cpp: asks the system by allocating pages and giving them back.
#include "tensor/memory/shortage.h"

#include "tensor/core/platform/memory.h"
#include "tensor/core/platform/threads.h"

namespace moonlet::memory {
namespace {

using platform::address_space;

// Here there is memory for the unwinder.
bool prepare() noexcept {
  platform::open_unwinder();
  return address_space() != INT64_MAX;
}

// What a new thread needs beside its stack.
constexpr size_t kThreadExtra = size_t{1} << 20;

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

bool can_map(size_t bytes) noexcept { return platform::can_allocate_pages(bytes); }

int affordable_threads_when_short(int threads) noexcept {
  static const size_t each = platform::default_stack_size() + kThreadExtra;
  return threads > 1 && !can_map(each * static_cast<size_t>(threads)) ? 1 : threads;
}

}  // namespace moonlet::memory
