// tensor/threads.cpp: sets the number of threads of OpenMP, which our own loops and oneDNN follow,
// and of OpenBLAS; and how they treat denormal numbers.
#include "tensor/threads.h"

#include <omp.h>

#include "moonlet_config.h"
#include "tensor/error.h"

#if MOONLET_OPENBLAS
#include <cblas.h>
#endif
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace moonlet {

int num_threads() { return omp_get_max_threads(); }

void set_num_threads(int64_t count) {
  check(count >= 1 && count <= kMaxThreads, "set_num_threads: a number from 1 to ", kMaxThreads,
        " is wanted, got ", count);
#if MOONLET_OPENBLAS
  // OpenBLAS's OpenMP build asks OpenMP at each call; one with threads of its own must be told.
  if (openblas_get_parallel() == OPENBLAS_THREAD) openblas_set_num_threads(static_cast<int>(count));
#endif
  omp_set_num_threads(static_cast<int>(count));
}

void use_this_thread_alone() { omp_set_num_threads(1); }

bool set_flush_denormal([[maybe_unused]] bool on) {
#if defined(__x86_64__)
  // Results are flushed (bit 15 of MXCSR) and arguments read as zeros (bit 6). Threads made later
  // start with the state of the one that makes them.
  constexpr unsigned kFlush = 0x8040;
#pragma omp parallel
  _mm_setcsr(on ? _mm_getcsr() | kFlush : _mm_getcsr() & ~kFlush);
  return true;
#else
  return false;
#endif
}

}  // namespace moonlet
