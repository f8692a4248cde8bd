// interp/embed/watchdog.cpp: sleeping until a deadline passes.
#include "interp/embed/watchdog.h"

#include <new>

#include "interp/state/run_limits.h"

namespace moonlet {

// What the thread may have locked, or waits for, is not ended but made anew.
void Watchdog::forget_parents() noexcept {
  if (generation_ == fork_generation()) return;
  new (&mutex_) std::mutex;
  new (&changed_) std::condition_variable;
  new (&thread_) std::thread;
  asleep_ = false;
  generation_ = fork_generation();
}

Watchdog::~Watchdog() {
  forget_parents();
  if (!thread_.joinable()) return;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ending_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void Watchdog::arm(std::chrono::nanoseconds time) {
  forget_parents();
  const Clock::time_point now = Clock::now();
  const std::lock_guard<std::mutex> lock(mutex_);
  // Later than any clock reaches stands for never.
  deadline_ = time < Clock::time_point::max() - now ? now + time : Clock::time_point::max();
  runner_ = thread_id();
  armed_ = true;
  if (!thread_.joinable())
    thread_ = std::thread([this] { watch(); });
  else if (asleep_)
    changed_.notify_one();
}

void Watchdog::disarm() noexcept {
  forget_parents();
  const std::lock_guard<std::mutex> lock(mutex_);
  armed_ = false;
}

void Watchdog::watch() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!ending_) {
    if (!armed_) {
      asleep_ = true;
      changed_.wait(lock, [this] { return armed_ || ending_; });
      asleep_ = false;
    } else if (Clock::now() >= deadline_) {
      armed_ = false;
      request_stop_from_outside(data_, StopCause::WallTime, runner_);
    } else {
      const Clock::time_point until = deadline_;
      changed_.wait_until(lock, until, [this] { return ending_; });
    }
  }
}

}  // namespace moonlet
