// tensor/memory/live_bound.h: a bound on the bytes of tensors that a part of a program holds at
// once, whatever ops make them: what runs may come from a file.
#pragma once

#include <cstdint>

namespace moonlet::memory {

// While alive, new storages of this thread may not make the live bytes more than `limit` beyond
// those that there are at its making. Nested ones hold together.
class LiveBound {
 public:
  explicit LiveBound(int64_t limit) noexcept;
  ~LiveBound();
  LiveBound(const LiveBound&) = delete;
  LiveBound& operator=(const LiveBound&) = delete;

  // Asked before `bytes` are allocated. Throws OutOfMemory, upon which garbage is collected.
  void check(uint64_t bytes) const;

 private:
  const int64_t limit_, live_before_, allocated_before_;
  const LiveBound* const outer_;
};

// The innermost one of this thread.
extern constinit thread_local const LiveBound* live_bound;

}  // namespace moonlet::memory
