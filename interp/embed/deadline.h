// interp/embed/deadline.h: ends runs of interpreters that take too long. One thread of the process
// watches all of them; it lives while an interpreter has had a limit of time.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace moonlet {

struct StateData;

// Nanoseconds of CLOCK_MONOTONIC.
using Instant = int64_t;
inline constexpr Instant kNever = INT64_MAX;

Instant now_instant() noexcept;
// Of the coarse clock: behind `now_instant` by up to a tick, and cheaper by far.
Instant coarse_instant() noexcept;

// The end of the run of one interpreter. What watches it sees it while it exists.
class Deadline {
 public:
  explicit Deadline(StateData& data);
  ~Deadline();
  Deadline(const Deadline&) = delete;
  Deadline& operator=(const Deadline&) = delete;

  // A run on thread `runner` (thread_id) is to end by itself before `end`, or is ended then.
  void arm(Instant end, int runner);
  // The run has ended: nothing requests its stop after this.
  void disarm() noexcept;
  // When the run is to end; kNever while it is not armed.
  Instant end() const noexcept { return end_.load(std::memory_order_relaxed); }

 private:
  friend class Watcher;
  // Stands for an end that has come: the request to stop is being made.
  static constexpr Instant kStopping = -1;
  // Requests the stop of a run that was to end before `now`.
  void stop_if_late(Instant now) noexcept;

  StateData& data_;
  std::atomic<Instant> end_{kNever};
  std::atomic<int> runner_{0};
};

// When a run that begins now and may take so long is to end. Short ones are measured exactly, long
// ones to a tick of the coarse clock, which was `coarse` a moment ago.
Instant end_after(std::chrono::nanoseconds time, Instant coarse) noexcept;

}  // namespace moonlet
