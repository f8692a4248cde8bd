// cuda/emulated/watch.h: what kernels read and write, for a plug-in that the compiler has
// instrumented (the option watch_kernels). Two threads that use one position of memory, one of them
// to write, must be parted by a barrier of their block, by __syncwarp within a warp, or by the end
// of the kernel; two blocks, by __threadfence and then an atomic that both change. What is not is a
// race, and fails the launch with a text that says where. How a warp's accesses share the 32-byte
// sectors that memory is read in is counted by kernel.
#pragma once

#include <cstddef>
#include <cstdint>

namespace moonlet::emulated {

/// Memory that every block has for itself.
struct SharedMemory {
  const void* start;
  std::size_t bytes;
};

#ifdef MOONLET_EMULATED_WATCH

inline constexpr bool kWatched = true;

/// Kernels run on one OS thread, block by block; these say where they are.
void watch_launch(const char* name);
void watch_block(SharedMemory dynamic);
void watch_stack(const void* bottom, std::size_t bytes);
void watch_barrier();
void watch_warp_barrier(unsigned warp);

#else

inline constexpr bool kWatched = false;
inline void watch_launch(const char*) {}
inline void watch_block(SharedMemory) {}
inline void watch_stack(const void*, std::size_t) {}
inline void watch_barrier() {}
inline void watch_warp_barrier(unsigned) {}

#endif

}  // namespace moonlet::emulated
