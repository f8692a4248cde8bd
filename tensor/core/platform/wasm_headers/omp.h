// tensor/core/platform/serial/omp.h: OpenMP's functions where there is one thread: a team of one is
// promised and given. On the path of headers in the place of OpenMP's own.
#pragma once

inline int omp_in_parallel() noexcept { return 0; }
inline int omp_get_max_threads() noexcept { return 1; }
inline int omp_get_num_threads() noexcept { return 1; }
inline int omp_get_thread_num() noexcept { return 0; }
inline int omp_get_thread_limit() noexcept { return 1; }
inline int omp_get_max_active_levels() noexcept { return 1; }
inline int omp_get_dynamic() noexcept { return 0; }
inline void omp_set_dynamic(int) noexcept {}
inline void omp_set_num_threads(int) noexcept {}

enum omp_pause_resource_t { omp_pause_soft = 1, omp_pause_hard = 2 };
inline int omp_pause_resource_all(omp_pause_resource_t) noexcept { return 0; }
