// tensor/cpu/parallel.h: a loop over [0, count) split among OpenMP's threads, which lets exceptions
// out of the parallel region.
#pragma once

#include <omp.h>

#include <algorithm>
#include <cstdint>
#include <exception>

namespace moonlet::cpu {

// Calls body(begin, end) on disjoint ranges that cover [0, count). Runs on this thread alone when
// count <= grain, or inside another parallel region. The first exception is rethrown.
template <class Body>
void parallel_for(int64_t count, int64_t grain, Body&& body) {
  if (count <= 0) return;
  const int64_t useful = (count + grain - 1) / std::max<int64_t>(grain, 1);
  const int threads = static_cast<int>(std::min<int64_t>(useful, omp_get_max_threads()));
  if (threads <= 1 || omp_in_parallel()) return body(int64_t{0}, count);
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

// The grain for items that cost `work` elementary steps each: a thread gets at least 32k steps.
inline int64_t grain_for(int64_t work) {
  return std::max<int64_t>(1, 32768 / std::max<int64_t>(work, 1));
}

}  // namespace moonlet::cpu
