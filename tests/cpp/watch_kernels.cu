// tests/cpp/watch_kernels.cu: kernels with races and without.
#include "cuda/runtime/launch.h"

// Each reads what its neighbour has written into shared memory.
__global__ void neighbour(int* out, bool wait) {
  __shared__ int values[256];
  values[threadIdx.x] = static_cast<int>(threadIdx.x);
  if (wait) __syncthreads();
  out[blockIdx.x * blockDim.x + threadIdx.x] = values[(threadIdx.x + 1) % blockDim.x];
}

// The same by dynamic shared memory within a warp.
__global__ void warp_neighbour(int* out, bool wait) {
  MOONLET_DYNAMIC_SHARED(int, values);
  values[threadIdx.x] = static_cast<int>(threadIdx.x);
  if (wait) __syncwarp();
  const unsigned other = threadIdx.x / 32 * 32 + (threadIdx.x + 1) % 32;
  out[blockIdx.x * blockDim.x + threadIdx.x] = values[other];
}

// A shuffle orders no memory.
__global__ void after_shuffle(int* out) {
  out[threadIdx.x] = 1;
  const int other = __shfl_xor_sync(0xffffffffu, static_cast<int>(threadIdx.x), 1);
  out[other] += 1;
}

// Writes where the reads of the turn before may still go on.
__global__ void turns(int* out, bool wait) {
  __shared__ int value;
  int sum = 0;
  for (int turn = 0; turn < 3; ++turn) {
    if (threadIdx.x == 0) value = turn;
    __syncthreads();
    sum += value;
    if (wait) __syncthreads();
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

// Every block adds to one number.
__global__ void total(int* out, bool atomically) {
  if (threadIdx.x != 0) return;
  if (atomically)
    atomicAdd(out, 1);
  else
    *out += 1;
}

// The last block adds up what all have left.
__global__ void last_adds(int* out, unsigned* done, bool fence) {
  __shared__ bool last;
  if (threadIdx.x == 0) {
    out[1 + blockIdx.x] = 1;
    if (fence) __threadfence();
    last = atomicAdd(done, 1u) == gridDim.x - 1;
  }
  __syncthreads();
  if (!last || threadIdx.x != 0) return;
  for (unsigned b = 0; b < gridDim.x; ++b) out[0] += out[1 + b];
}

// Bytes beside each other are positions of their own.
__global__ void bytes(unsigned char* out) {
  unsigned char& mine = out[blockIdx.x * blockDim.x + threadIdx.x];
  const unsigned char before = mine;
  __syncwarp();
  mine = static_cast<unsigned char>(before + 1);
}
