// interp/embed/deadline.cpp: the thread that sleeps until the next deadline of the process.
#include "interp/embed/deadline.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <new>
#include <thread>
#include <utility>
#include <vector>

#include "interp/state/run_limits.h"
#include "tensor/core/platform/clock.h"
#include "tensor/runtime/forked.h"

namespace moonlet {
namespace {}  // namespace

Instant now_instant() noexcept { return platform::clock_now(); }
Instant coarse_instant() noexcept { return platform::coarse_clock_now(); }

Instant end_after(std::chrono::nanoseconds time, Instant coarse) noexcept {
  // A tick of the coarse clock, of which a long run may be late.
  constexpr Instant kTick = 4'000'000, kLong = 25 * kTick;
  const Instant start = time.count() >= kLong ? coarse + kTick : now_instant();
  // Later than any clock reaches stands for never.
  return time.count() < kNever - start ? start + time.count() : kNever;
}

// Runs arm and disarm without a lock. The watcher says until when it sleeps before it looks at all
// ends once more; a run says its end before it looks at that: one of the two sees the other.
class Watcher {
 public:
  // Never destroyed: interpreters may be closed while static objects end.
  static Watcher& of_process() {
    static Watcher* const it = new Watcher;
    return *it;
  }

  void add(Deadline& deadline) {
    forget_parents();
    const std::lock_guard lock(mutex_);
    deadlines_.push_back(&deadline);
  }

  // The last one ends the thread.
  void remove(Deadline& deadline) noexcept {
    forget_parents();
    std::thread ending;
    {
      const std::lock_guard lock(mutex_);
      std::erase(deadlines_, &deadline);
      if (!deadlines_.empty() || !thread_.joinable()) return;
      ending = std::exchange(thread_, {});
      ++ended_;
    }
    changed_.notify_all();
    ending.join();
  }

  // A run has an end before the thread wakes.
  void wake() {
    forget_parents();
    {
      const std::lock_guard lock(mutex_);
      if (!thread_.joinable()) thread_ = std::thread([this, turn = ended_] { watch(turn); });
    }
    changed_.notify_all();
  }
  bool sleeps_beyond(Instant end) const noexcept {
    return end < wakes_at_.load(std::memory_order_seq_cst) || generation_ != fork_generation();
  }

 private:
  // What a thread of the parent process may have locked, or waits for, is not ended but made anew.
  void forget_parents() noexcept {
    if (generation_ == fork_generation()) return;
    new (&mutex_) std::mutex;
    new (&changed_) std::condition_variable;
    new (&thread_) std::thread;
    wakes_at_ = kNever;
    generation_ = fork_generation();
  }

  Instant earliest() const noexcept {
    Instant found = kNever;
    for (const Deadline* each : deadlines_)
      found = std::min(found, each->end_.load(std::memory_order_seq_cst));
    return found;
  }

  void watch(int turn) {
    std::unique_lock lock(mutex_);
    while (ended_ == turn) {
      wakes_at_.store(earliest(), std::memory_order_seq_cst);
      const Instant next = earliest(), now = now_instant();
      if (next <= now) {
        for (Deadline* each : deadlines_) each->stop_if_late(now);
      } else if (next == kNever) {
        changed_.wait(lock);
      } else {
        using Clock = std::chrono::steady_clock;
        changed_.wait_until(lock, Clock::time_point(Clock::duration(next)));
      }
    }
    wakes_at_ = kNever;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Deadline*> deadlines_;
  std::thread thread_;
  int ended_ = 0;  // threads that have ended, or are to end
  int generation_ = fork_generation();
  std::atomic<Instant> wakes_at_{kNever};
};

Deadline::Deadline(StateData& data) : data_(data) { Watcher::of_process().add(*this); }
Deadline::~Deadline() {
  disarm();
  Watcher::of_process().remove(*this);
}

void Deadline::arm(Instant end, int runner) {
  Watcher& watcher = Watcher::of_process();
  runner_.store(runner, std::memory_order_relaxed);
  end_.store(end, std::memory_order_seq_cst);
  if (watcher.sleeps_beyond(end)) watcher.wake();
}

void Deadline::disarm() noexcept {
  Instant end = end_.load(std::memory_order_relaxed);
  do {
    // The watcher is making its request, which takes no time.
    while (end == kStopping) {
      std::this_thread::yield();
      end = end_.load(std::memory_order_relaxed);
    }
  } while (!end_.compare_exchange_weak(end, kNever, std::memory_order_acq_rel));
}

void Deadline::stop_if_late(Instant now) noexcept {
  Instant end = end_.load(std::memory_order_acquire);
  if (end > now || !end_.compare_exchange_strong(end, kStopping, std::memory_order_acq_rel)) return;
  request_stop_from_outside(data_, StopCause::WallTime, runner_.load(std::memory_order_relaxed));
  end_.store(kNever, std::memory_order_release);
}

}  // namespace moonlet
