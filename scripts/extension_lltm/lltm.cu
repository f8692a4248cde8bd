// scripts/extension_lltm/lltm.cu: the gates of an LLTM as one kernel each way: a thread for each
// element of the state.
#include <cuda_runtime.h>

#include <stdexcept>
#include <string>

#include "lltm.h"

namespace {

constexpr int kThreads = 256;

__device__ float sigmoid(float x) { return 1 / (1 + expf(-x)); }

__global__ void forward_kernel(float* gates, const float* cell, float* new_h, float* new_cell,
                               int64_t count, int64_t state) {
  const int64_t at = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (at >= count) return;
  float* const row = gates + at / state * 3 * state + at % state;
  const float in = sigmoid(row[0]), out = sigmoid(row[state]);
  const float x = row[2 * state], candidate = x > 0 ? x : expm1f(x);
  row[0] = in;
  row[state] = out;
  row[2 * state] = candidate;
  const float sum = cell[at] + candidate * in;
  new_cell[at] = sum;
  new_h[at] = tanhf(sum) * out;
}

__global__ void backward_kernel(const float* gates, const float* new_cell, const float* grad_h,
                                const float* grad_cell, float* grad_gates, float* grad_old,
                                int64_t count, int64_t state) {
  const int64_t at = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (at >= count) return;
  const int64_t first = at / state * 3 * state + at % state;
  const float in = gates[first], out = gates[first + state], candidate = gates[first + 2 * state];
  const float t = tanhf(new_cell[at]);
  const float d_cell = grad_cell[at] + grad_h[at] * out * (1 - t * t);
  grad_gates[first] = d_cell * candidate * in * (1 - in);
  grad_gates[first + state] = grad_h[at] * t * out * (1 - out);
  grad_gates[first + 2 * state] = d_cell * in * (candidate > 0 ? 1 : candidate + 1);
  grad_old[at] = d_cell;
}

unsigned blocks_for(int64_t count) {
  return static_cast<unsigned>((count + kThreads - 1) / kThreads);
}

void check_launch() {
  const cudaError_t error = cudaGetLastError();
  if (error != cudaSuccess)
    throw std::runtime_error(std::string("lltm: ") + cudaGetErrorString(error));
}

}  // namespace

void lltm_forward_cuda(float* gates, const float* cell, float* new_h, float* new_cell, int64_t rows,
                       int64_t state, void* stream) {
  const int64_t count = rows * state;
  if (count == 0) return;
  forward_kernel<<<blocks_for(count), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      gates, cell, new_h, new_cell, count, state);
  check_launch();
}

void lltm_backward_cuda(const float* gates, const float* new_cell, const float* grad_h,
                        const float* grad_cell, float* grad_gates, float* grad_old, int64_t rows,
                        int64_t state, void* stream) {
  const int64_t count = rows * state;
  if (count == 0) return;
  backward_kernel<<<blocks_for(count), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      gates, new_cell, grad_h, grad_cell, grad_gates, grad_old, count, state);
  check_launch();
}
