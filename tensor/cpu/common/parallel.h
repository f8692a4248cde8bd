// tensor/cpu/common/parallel.h: how many threads a piece of work is worth, and a loop over [0,
// count) split among OpenMP's threads, which lets exceptions out of the parallel region and stops
// early when the interpreter is asked to.
#pragma once

#include <omp.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <utility>

#include "tensor/cpu/common/thresholds.h"
#include "tensor/memory/shortage.h"
#include "tensor/runtime/interrupt.h"

namespace moonlet::cpu {

inline constexpr int64_t kGrain = thresholds::kGrain;

// The grain for items that cost `work` elementary steps each.
inline int64_t grain_for(int64_t work) {
  return std::max<int64_t>(1, kGrain / std::max<int64_t>(work, 1));
}

// The threads for `count` items, each getting `grain` of them at least; 1 inside another parallel
// region, or when there is no memory for more.
inline int thread_count(int64_t count, int64_t grain) {
  if (count < 2 * grain || omp_in_parallel()) return 1;
  return memory::affordable_threads(
      static_cast<int>(std::min<int64_t>(omp_get_max_threads(), count / grain)));
}

// What other libraries may start on this thread while it is alive: as many threads as there is
// memory for, or `limit`. They share their work out among as many as OpenMP promises and wait for
// all of them, or leave the rest undone, so it must not give fewer: it may have a limit below
// (OMP_THREAD_LIMIT), allow no team at all, or decide at each region (OMP_DYNAMIC).
class TeamLimit {
 public:
  explicit TeamLimit(int limit) : before_(omp_get_max_threads()), dynamic_(omp_get_dynamic()) {
    limit = omp_get_max_active_levels() == 0 ? 1 : std::min(limit, omp_get_thread_limit());
    if (limit < before_) omp_set_num_threads(limit);
    if (dynamic_ != 0) omp_set_dynamic(0);
  }
  TeamLimit() : TeamLimit(memory::affordable_threads(omp_get_max_threads())) {}
  ~TeamLimit() {
    omp_set_num_threads(before_);
    if (dynamic_ != 0) omp_set_dynamic(1);
  }
  TeamLimit(const TeamLimit&) = delete;
  TeamLimit& operator=(const TeamLimit&) = delete;

 private:
  const int before_, dynamic_;
};

// How many items are done between two looks at the stop flag, where each thread gets `grain`.
inline int64_t block_for(int64_t grain) { return grain > 1 ? 16 * grain : 1; }

// body(begin, end) by blocks; throws Interrupted between two of them.
template <class Body>
void run_blocks(int64_t begin, int64_t end, int64_t block, Body&& body) {
  for (; begin < end; begin += block) {
    stop_if_requested();
    body(begin, std::min(end, begin + block));
  }
}

// The same for [0, count) on this thread, where an item costs `work` elementary steps. A loop over
// so little that there is one block does not look at the flag.
template <class Body>
void serial_for(int64_t count, int64_t work, Body&& body) {
  const int64_t block = block_for(grain_for(work));
  for (int64_t begin = 0; begin < count; begin += block) {
    if (begin > 0) stop_if_requested();
    body(begin, std::min(count, begin + block));
  }
}

// What threads of a team have thrown. One of it goes on after the team's end.
class TeamFailure {
 public:
  // Runs `part`, which looks at the stop flag of the thread that made this; to be called by each
  // thread.
  template <class Part>
  void guard(Part&& part) noexcept {
    StopFlag* const before = std::exchange(execution.stop, stop_);
    try {
      part();
    } catch (const Interrupted&) {
      interrupted_ = true;
      keep();
    } catch (const std::exception&) {
      keep();
    }
    execution.stop = before;
  }
  void rethrow() {
    if (!first_) [[likely]]
      return;
    if (interrupted_)
      if (const char* reason = execution.stop->take()) throw Interrupted(reason);
    std::rethrow_exception(first_);
  }

 private:
  void keep() {
#pragma omp critical(moonlet_parallel_failure)
    if (!first_) first_ = std::current_exception();
  }
  StopFlag* const stop_ = execution.stop;
  std::exception_ptr first_;
  std::atomic<bool> interrupted_{false};
};

// Calls body(begin, end) on disjoint ranges that cover [0, count). Runs on this thread alone when
// count <= grain, or inside another parallel region. The first exception is rethrown. Throws
// Interrupted when a stop is requested.
template <class Body>
void parallel_for(int64_t count, int64_t grain, Body&& body) {
  if (count <= 0) return;
  const int64_t block = block_for(grain);
  const int threads = thread_count(count + grain - 1, grain);  // the last may get less than a grain
  if (threads <= 1) {
    if (count <= block) return body(int64_t{0}, count);
    return run_blocks(0, count, block, body);
  }
  TeamFailure failure;
#pragma omp parallel num_threads(threads)
  failure.guard([&] {
    const int64_t team = omp_get_num_threads(), me = omp_get_thread_num();
    run_blocks(count * me / team, count * (me + 1) / team, block, body);
  });
  failure.rethrow();
}

}  // namespace moonlet::cpu
