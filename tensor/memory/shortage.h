// tensor/memory/shortage.h: what to do without when memory or address space is short: OpenMP ends
// the process when it cannot start a thread, and BLAS when it cannot map a buffer.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace moonlet::memory {

// Whether an allocation has failed in this process, or its address space was limited at the start.
extern std::atomic<bool> shortage;

// The bytes that may be kept for later use however little is in use: any number, a part of a
// limited address space, none when an allocation has failed, and again more with each that has not.
extern std::atomic<int64_t> keepable;

// Notes that an allocation failed.
void note_shortage() noexcept;

// Notes that the system gave a block of so many bytes.
void note_given(size_t bytes) noexcept;

// Whether that much could be mapped now.
bool can_map(size_t bytes) noexcept;

// What oneDNN may map for the machine code of a kernel; it uses the code unasked when it could not.
constexpr size_t kKernelCode = size_t{16} << 20;
// False when that much is known not to be there.
inline bool has_room(size_t bytes) noexcept {
  return !shortage.load(std::memory_order_relaxed) || can_map(bytes);
}

// `threads`, or 1 when OpenMP might be unable to start so many.
int affordable_threads_when_short(int threads) noexcept;
inline int affordable_threads(int threads) noexcept {
  if (shortage.load(std::memory_order_relaxed)) [[unlikely]]
    return affordable_threads_when_short(threads);
  return threads;
}

}  // namespace moonlet::memory
