// cuda/emulated/grid.h: running a grid on the host: the per-thread context behind threadIdx and its
// like, barriers, warp exchanges, and the launcher that MOONLET_LAUNCH calls.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>

#include "cuda_runtime_api.h"
#include "vector_types.h"

namespace moonlet::emulated {

inline constexpr unsigned kWarpSize = 32;
inline constexpr unsigned kMaxThreads = 1024;

/// Where the OS thread stands in the grid it runs: what device code may look at, and the count of
/// the block's threads that have started.
struct Context {
  uint3 thread_idx{}, block_idx{};
  dim3 block_dim, grid_dim;
  void* dynamic_shared = nullptr;
  unsigned thread = 0;  // linear index in the block of the thread that runs
  unsigned next_thread = 0, thread_count = 0;
  unsigned start = 0, step = 1;  // the thread that starts next, and how far the one after it is
  bool active = false;
};

// One block stays on one OS thread, so plain thread-local access is right on every fiber; the model
// keeps threadIdx as cheap as a field also in a plugin. It is always named, never bound to a
// reference: GCC's null check of such a reference goes wrong when the linker relaxes the access.
extern constinit thread_local Context context __attribute__((tls_model("initial-exec")));

/// Makes `thread` the one that context.thread_idx describes.
inline void set_thread(unsigned thread) {
  context.thread = thread;
  if (context.block_dim.y * context.block_dim.z == 1) {
    context.thread_idx.x = thread;
    return;
  }
  context.thread_idx.x = thread % context.block_dim.x;
  context.thread_idx.y = thread / context.block_dim.x % context.block_dim.y;
  context.thread_idx.z = thread / context.block_dim.x / context.block_dim.y;
}

/// Moves on to the block's next thread that has not started; false when there is none.
inline bool start_thread() {
  if (context.next_thread >= context.thread_count) return false;
  ++context.next_thread;
  set_thread(context.start);
  context.start += context.step;
  if (context.start >= context.thread_count) context.start -= context.thread_count;
  return true;
}

/// What a thread waits for.
enum class Wait : std::uint8_t { kNothing, kBarrier, kWarp, kShuffle, kVote, kWarpgroup };

/// Votes counted by a barrier or a warp: how many (barrier) or which (warp) took part and voted
/// yes.
struct Votes {
  std::uint32_t present, yes;
};

/// __syncthreads: waits for every thread of the block that has not exited.
Votes barrier(bool vote);

/// Waits for the lanes of `mask` that have not exited and returns the value that `source` brought.
/// Fails the launch when the caller is not in `mask` or `source` takes no part.
std::uint64_t exchange(unsigned mask, std::uint64_t value, unsigned source);

/// The same for votes: bit masks of the lanes that took part and of those that voted yes.
Votes vote(unsigned mask, bool yes);

/// __syncwarp.
void sync_warp(unsigned mask);

/// Ends the kernel with cudaErrorLaunchFailure; `why` is what failure_text() then says.
[[noreturn]] void fail_launch(const char* why);

/// Why the last kernel on the current device failed, or an empty string.
std::string failure_text();

/// Runs all threads of the current block from start_thread() on.
using ThreadLoop = void (*)(const void* body);

/// A kernel, and what the code calls it.
struct Kernel {
  const void* address;
  const char* name;
};

/// Checks the sizes against CUDA's limits, then runs every block, at once or when the stream's turn
/// comes (queue.h): `body` is copied by then. Blocks of a large grid are spread over OpenMP
/// threads. Errors go to cudaGetLastError(). A kernel cannot launch another one.
/// MOONLET_EMULATED_ORDER=reverse starts the threads of a block, and its blocks when they run in
/// turn, from the last one, and random:SEED in an order that differs from launch to launch, to show
/// code that leans on the order.
void launch_grid(const Kernel& kernel, dim3 grid, dim3 block, std::size_t shared_bytes,
                 cudaStream_t stream, const void* body, ThreadLoop loop,
                 std::shared_ptr<const void> (*copy)(const void* body));

/// Whether the current device may use the memory that these begin in; else the device fails as
/// after an illegal access. Pointers inside structures are not known.
bool in_reach(const void* const* pointers, std::size_t count);

template <class T>
const void* as_pointer(const T& argument) {
  if constexpr (std::is_pointer_v<T>) return argument;
  return nullptr;
}

template <class... P>
const void* kernel_address(void (*kernel)(P...)) {
  return reinterpret_cast<const void*>(kernel);
}

/// `call(args...)` once for every thread of the grid, with the arguments evaluated once.
template <class Call, class... Args>
void launch(const Kernel& kernel, dim3 grid, dim3 block, std::size_t shared_bytes,
            cudaStream_t stream, Call call, Args... args) {
  const void* const pointers[] = {as_pointer(args)..., nullptr};
  if (fails("a launch") || !in_reach(pointers, sizeof...(Args))) return;
  const auto body = [call, args...] { call(args...); };
  using Body = decltype(body);
  launch_grid(
      kernel, grid, block, shared_bytes, stream, &body,
      [](const void* erased) {
        Body& run = *static_cast<Body*>(erased);
        while (start_thread()) run();
      },
      [](const void* erased) -> std::shared_ptr<const void> {
        return std::make_shared<Body>(*static_cast<Body*>(erased));
      });
}

}  // namespace moonlet::emulated

#define threadIdx (::moonlet::emulated::context.thread_idx)
#define blockIdx (::moonlet::emulated::context.block_idx)
#define blockDim (::moonlet::emulated::context.block_dim)
#define gridDim (::moonlet::emulated::context.grid_dim)
inline constexpr int warpSize = 32;
