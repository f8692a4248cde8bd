// tensor/runtime/threads.cpp: sets the number of threads of OpenMP, which our own loops and oneDNN
// follow, and of OpenBLAS; and how they treat denormal numbers.
#include "tensor/runtime/threads.h"

#include <omp.h>

#include "moonlet_config.h"
#include "tensor/core/error.h"
#include "tensor/memory/shortage.h"

#if MOONLET_OPENBLAS
#include <cblas.h>
#endif
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace moonlet {
namespace {

void set_count(int count) noexcept {
#if MOONLET_OPENBLAS
  // OpenBLAS's OpenMP build asks OpenMP at each call; one with threads of its own must be told.
  static const bool own_threads = openblas_get_parallel() == OPENBLAS_THREAD;
  if (own_threads && openblas_get_num_threads() != count) openblas_set_num_threads(count);
#endif
  if (omp_get_max_threads() != count) omp_set_num_threads(count);
}

#if defined(__x86_64__)
// Results are flushed (bit 15 of MXCSR) and arguments read as zeros (bit 6).
constexpr unsigned kFlush = 0x8040;

bool flushes_denormal() noexcept { return (_mm_getcsr() & kFlush) == kFlush; }

void set_flush_here(bool on) noexcept {
  _mm_setcsr(on ? _mm_getcsr() | kFlush : _mm_getcsr() & ~kFlush);
}
// Threads made later start with the state of the one that makes them.
void set_flush(bool on) noexcept {
  const int team = memory::affordable_threads(omp_get_max_threads());
#pragma omp parallel num_threads(team)
  set_flush_here(on);
  // LLVM's runtime gives this thread the state from before the team back.
  set_flush_here(on);
}
#else
bool flushes_denormal() noexcept { return false; }
void set_flush(bool) noexcept {}
#endif

}  // namespace

int num_threads() { return omp_get_max_threads(); }

void check_thread_count(int64_t count, const char* what) {
  check(count >= 1 && count <= kMaxThreads, what, ": a number from 1 to ", kMaxThreads,
        " is expected, got ", count);
}

void set_num_threads(int64_t count) {
  check_thread_count(count, "set_num_threads");
  set_count(static_cast<int>(count));
}

void use_this_thread_alone() { omp_set_num_threads(1); }

bool set_flush_denormal([[maybe_unused]] bool on) {
#if defined(__x86_64__)
  set_flush(on);
  return true;
#else
  return false;
#endif
}

ThreadSettings thread_settings() noexcept { return {omp_get_max_threads(), flushes_denormal()}; }

void install(const ThreadSettings& settings) noexcept {
  set_count(settings.count);
  if (flushes_denormal() != settings.flush_denormal) [[unlikely]]
    set_flush(settings.flush_denormal);
}

}  // namespace moonlet
