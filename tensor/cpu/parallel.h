// tensor/cpu/parallel.h: how many threads a piece of work is worth, and a loop over [0, count)
// split among OpenMP's threads, which lets exceptions out of the parallel region.
#pragma once

#include <omp.h>

#include <algorithm>
#include <cstdint>
#include <exception>

namespace moonlet::cpu {

// Elementary steps a thread should have at least: for fewer, waking it costs more than it saves.
inline constexpr int64_t kGrain = 32768;

// The grain for items that cost `work` elementary steps each.
inline int64_t grain_for(int64_t work) {
  return std::max<int64_t>(1, kGrain / std::max<int64_t>(work, 1));
}

// The threads for `count` items, each getting `grain` of them at least; 1 inside another parallel
// region.
inline int thread_count(int64_t count, int64_t grain) {
  if (count < 2 * grain || omp_in_parallel()) return 1;
  return static_cast<int>(std::min<int64_t>(omp_get_max_threads(), count / grain));
}

// Calls body(begin, end) on disjoint ranges that cover [0, count). Runs on this thread alone when
// count <= grain, or inside another parallel region. The first exception is rethrown.
template <class Body>
void parallel_for(int64_t count, int64_t grain, Body&& body) {
  if (count <= 0) return;
  const int threads = thread_count(count + grain - 1, grain);  // the last may get less than a grain
  if (threads <= 1) return body(int64_t{0}, count);
  std::exception_ptr failure;
#pragma omp parallel num_threads(threads)
  {
    const int64_t team = omp_get_num_threads(), me = omp_get_thread_num();
    const int64_t begin = count * me / team, end = count * (me + 1) / team;
    try {
      if (begin < end) body(begin, end);
    } catch (const std::exception&) {
#pragma omp critical(moonlet_parallel_failure)
      if (!failure) failure = std::current_exception();
    }
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace moonlet::cpu
