// tensor/runtime/interrupt.h: a request to stop what an interpreter computes. Any thread may make
// it, a signal handler too; long kernels look at it once per block of work and give up.
#pragma once

#include <atomic>
#include <cstdint>

#include "tensor/core/error.h"
#include "tensor/runtime/execution.h"

namespace moonlet {

// What a kernel that has given up throws; the message is the reason of the request. What it wrote
// is incomplete.
class Interrupted : public Error {
 public:
  using Error::Error;
};

// Each interpreter has one. `execution.stop` is that of the interpreter that runs on this thread.
class StopFlag {
 public:
  // The reason lives as long as the process: a literal.
  void request(const char* reason) noexcept { reason_.store(reason, std::memory_order_release); }
  // The same, but taking it does not end it: what the script tries next fails, too, until cancel().
  void request_until_cancelled(const char* reason) noexcept {
    lasting_.store(true, std::memory_order_relaxed);
    request(reason);
  }
  void cancel() noexcept {
    lasting_.store(false, std::memory_order_relaxed);
    reason_.store(nullptr, std::memory_order_relaxed);
  }

  bool requested() const noexcept { return reason_.load(std::memory_order_relaxed) != nullptr; }
  // The reason, or null; the request has been met then, unless it lasts. For the thread that runs
  // the interpreter: who takes a request must throw.
  const char* take() noexcept {
    if (!requested()) return nullptr;
    if (lasting_.load(std::memory_order_relaxed)) return reason_.load(std::memory_order_acquire);
    return reason_.exchange(nullptr, std::memory_order_acq_rel);
  }

 private:
  std::atomic<const char*> reason_{nullptr};
  std::atomic<bool> lasting_{false};
  static_assert(std::atomic<const char*>::is_always_lock_free, "set by signal handlers");
};

// Throws Interrupted. The request has been met then, unless other threads of a team are still to
// see it: the one that called the op takes it when the team has ended.
[[noreturn, gnu::cold]] void throw_interrupted();

// For long loops. The threads of a team have the flag of the thread that called the op.
inline void stop_if_requested() {
  if (execution.stop->requested()) [[unlikely]]
    throw_interrupted();
}

// The elements of a long loop between two looks at the flag.
inline constexpr int64_t kStopBlock = 1 << 20;

}  // namespace moonlet
