// tests/cpp/emulated_kernels.cu: small kernels that use what the emulation gives: barriers,
// shuffles, votes, atomics, shared memory, exits. Compiles under nvcc as well as over
// cuda/emulated/.
#include <cuda_runtime.h>

#include "cuda/runtime/launch.h"

template <class T, int kStep>
__global__ void fill(T* out, int n, T value) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) out[i] = value + static_cast<T>(i * kStep);
}

__global__ void where_am_i(unsigned* out) {
  const unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  const unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  out[block * blockDim.x * blockDim.y * blockDim.z + thread] = block * 1000 + thread;
}

/// Each block reverses its piece through dynamic shared memory.
__global__ void reverse_block(int* data) {
  MOONLET_DYNAMIC_SHARED(int, piece);
  int* mine = data + blockIdx.x * blockDim.x;
  piece[threadIdx.x] = mine[threadIdx.x];
  __syncthreads();
  mine[threadIdx.x] = piece[blockDim.x - 1 - threadIdx.x];
}

template <class T>
__device__ __forceinline__ T warp_sum(T value) {
  for (int offset = 16; offset > 0; offset /= 2)
    value += __shfl_down_sync(0xffffffffu, value, offset);
  return value;
}

/// The sum of each block's piece: shuffles in a warp, static shared memory between warps.
template <class T>
__global__ void __launch_bounds__(1024) block_sum(const T* in, T* out, int n) {
  __shared__ T partial[32];
  T sum = 0;
  for (int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x); i < n;
       i += static_cast<int>(blockDim.x * gridDim.x)) {
    sum += __ldg(in + i);
  }
  const int lane = static_cast<int>(threadIdx.x) % warpSize;
  const int warp = static_cast<int>(threadIdx.x) / warpSize;
  sum = warp_sum(sum);
  if (lane == 0) partial[warp] = sum;
  __syncthreads();
  if (warp != 0) return;
  sum = lane < static_cast<int>(blockDim.x) / warpSize ? partial[lane] : T(0);
  sum = warp_sum(sum);
  if (lane == 0) out[blockIdx.x] = sum;
}

/// For each lane: shfl, up, down, xor with `width`, then ballot of odd lanes and those alike by 5.
__global__ void shuffles(double* out, int width) {
  const unsigned all = 0xffffffffu;
  const int lane = static_cast<int>(threadIdx.x);
  const double value = lane + 0.5;
  double* mine = out + lane * 6;
  mine[0] = __shfl_sync(all, value, 3, width);
  mine[1] = __shfl_up_sync(all, value, 2, width);
  mine[2] = __shfl_down_sync(all, value, 2, width);
  mine[3] = __shfl_xor_sync(all, value, 9, width);
  mine[4] = __ballot_sync(all, lane & 1);
  mine[5] = __match_any_sync(all, static_cast<long long>(lane % 5) - 2);
}

/// The two halves of a warp shuffle on their own, a different number of times.
__global__ void half_warps(int* out) {
  const int lane = static_cast<int>(threadIdx.x);
  const unsigned mask = lane < 16 ? 0x0000ffffu : 0xffff0000u;
  int value = lane;
  for (int i = 0; i < (lane < 16 ? 1 : 3); ++i) value = __shfl_xor_sync(mask, value, 1);
  __syncwarp();
  out[lane] = value + 100 * (__any_sync(0xffffffffu, lane == 31) + __all_sync(mask, lane < 16));
}

__global__ void count(int* total, unsigned long long* wide, float* sum, double* exact, int* most) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  atomicAdd(total, 1);
  atomicAdd(wide, 1ull << 33);
  atomicAdd(sum, 1.0f);
  atomicAdd(exact, 0.5);
  atomicMax(most, i);
}

/// Some threads leave before the barrier; the others pass it. Counts the even ones that stayed.
__global__ void early_exit(int* out, int stay) {
  if (static_cast<int>(threadIdx.x) >= stay) return;
  const int even = __syncthreads_count(threadIdx.x % 2 == 0);
  out[threadIdx.x] = even;
}

/// Half of the warp waits at the barrier, the other half in a shuffle that names all lanes.
__global__ void deadlock(int* out) {
  int value = static_cast<int>(threadIdx.x);
  if (threadIdx.x < 16) {
    value = __shfl_xor_sync(0xffffffffu, value, 1);
  } else {
    __syncthreads();
  }
  out[threadIdx.x] = value;
}

/// Reads lanes that have exited.
__global__ void missing_lanes(int* out) {
  if (threadIdx.x >= 16) return;
  const int value = static_cast<int>(threadIdx.x);
  out[threadIdx.x] = __shfl_down_sync(0xffffffffu, value, 8);
}

__global__ void trap(int at) {
  if (static_cast<int>(threadIdx.x) == at) __trap();
  __syncthreads();
}

inline void launch_for_both_compilers(float* data, int n, cudaStream_t stream) {
  MOONLET_LAUNCH((fill<float, 2>), (n + 255) / 256, 256, 0, stream, data, n, 1.0f);
  MOONLET_LAUNCH(block_sum<float>, dim3(1), dim3(256), 0, stream, data, data, n);
}
