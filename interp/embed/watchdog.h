// interp/embed/watchdog.h: a thread that ends runs of an interpreter which take too long.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "tensor/runtime/forked.h"

namespace moonlet {

struct StateData;

class Watchdog {
 public:
  explicit Watchdog(StateData& data) : data_(data) {}
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  // A run on this thread begins that may take so long. The first one starts the thread.
  void arm(std::chrono::nanoseconds time);
  // The run has ended: nothing requests its stop after this.
  void disarm() noexcept;

 private:
  using Clock = std::chrono::steady_clock;
  void watch();
  // Forgets the thread where it is that of the process which this one was forked from.
  void forget_parents() noexcept;

  StateData& data_;
  std::mutex mutex_;
  std::condition_variable changed_;
  // While armed; the thread sleeps until the one it has seen, as runs follow each other fast.
  Clock::time_point deadline_;
  int runner_ = 0;  // the thread of the run
  bool armed_ = false, ending_ = false, asleep_ = false;
  std::thread thread_;
  int generation_ = fork_generation();
};

}  // namespace moonlet
