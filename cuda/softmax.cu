// cuda/softmax.cu: softmax, log_softmax and their gradients along one dimension: a block per line,
// or a thread per line where lines are short or lie side by side.
#include <cmath>

#include "cuda/device.h"
#include "cuda/geometry.cuh"
#include "cuda/reduce.cuh"
#include "tensor/functor_math.h"
#include "tensor/kernels_softmax.h"

namespace moonlet::cuda {

namespace {

using namespace fn;  // NOLINT(google-build-using-namespace)

// How the values of a line are combined: by one thread, or by the threads of a block.
struct ThreadReduce {
  template <class C>
  __device__ static C sum(C v) {
    return v;
  }
  template <class C>
  __device__ static C largest(C v) {
    return v;
  }
};

template <class C>
struct AddUp {
  using Acc = C;
  __device__ C combine(C a, C b) const { return a + b; }
};
template <class C>
struct TakeLargest {
  using Acc = C;
  __device__ C combine(C a, C b) const { return a != a || a > b ? a : b; }
};

struct BlockReduce {
  template <class C>
  __device__ static C sum(C v) {
    return reduce_block(AddUp<C>(), v);
  }
  template <class C>
  __device__ static C largest(C v) {
    return reduce_block(TakeLargest<C>(), v);
  }
};

struct Line {
  int64_t base, step, size, first, stride;  // element i lies at base + i * step
};

template <class C, class Team>
__device__ void softmax_line(const Line& l, bool log, const Array& x, const Array& y) {
  C largest = C(-HUGE_VAL);
  for (int64_t i = l.first; i < l.size; i += l.stride) {
    const C v = x.get<C>(l.base + i * l.step);
    largest = largest != largest || largest > v ? largest : v;
  }
  largest = Team::largest(largest);
  C sum = C(0);
  for (int64_t i = l.first; i < l.size; i += l.stride)
    sum += vexp(x.get<C>(l.base + i * l.step) - largest);
  sum = Team::sum(sum);
  const C shift = log ? largest + vlog(sum) : largest;
  for (int64_t i = l.first; i < l.size; i += l.stride) {
    const int64_t at = l.base + i * l.step;
    const C v = x.get<C>(at) - shift;
    y.set<C>(at, log ? v : vexp(v) / sum);
  }
}

// `x` is the result of the forward pass.
template <class C, class Team>
__device__ void gradient_line(const Line& l, bool log, const Array& grad, const Array& x,
                              const Array& y) {
  C sum = C(0);
  for (int64_t i = l.first; i < l.size; i += l.stride) {
    const int64_t at = l.base + i * l.step;
    sum += log ? grad.get<C>(at) : grad.get<C>(at) * x.get<C>(at);
  }
  sum = Team::sum(sum);
  for (int64_t i = l.first; i < l.size; i += l.stride) {
    const int64_t at = l.base + i * l.step;
    const C g = grad.get<C>(at), r = x.get<C>(at);
    y.set<C>(at, log ? g - vexp(r) * sum : r * (g - sum));
  }
}

__device__ inline Line line_of(const DimSplit& s, int64_t line, int64_t first, int64_t stride) {
  return {line / s.inner * s.size * s.inner + line % s.inner, s.inner, s.size, first, stride};
}

template <class C>
__global__ void threads_kernel(DimSplit s, bool log, bool backward, Array grad, Array x, Array y) {
  for (MOONLET_EACH(line, s.outer * s.inner)) {
    const Line l = line_of(s, line, 0, 1);
    if (backward)
      gradient_line<C, ThreadReduce>(l, log, grad, x, y);
    else
      softmax_line<C, ThreadReduce>(l, log, x, y);
  }
}

template <class C>
__global__ void blocks_kernel(DimSplit s, bool log, bool backward, Array grad, Array x, Array y) {
  for (int64_t line = blockIdx.x; line < s.outer * s.inner; line += gridDim.x) {
    const Line l = line_of(s, line, threadIdx.x, kBlock);
    if (backward)
      gradient_line<C, BlockReduce>(l, log, grad, x, y);
    else
      softmax_line<C, BlockReduce>(l, log, x, y);
  }
}

void run(const char* op, const Tensor& grad, const Tensor& input, int64_t dim, bool log,
         Tensor& y) {
  if (y.numel() == 0) return;
  const Call call(y, op);
  const bool backward = grad.defined();
  const Tensor x = contiguous(input), g = backward ? contiguous(grad) : x;
  const DimSplit s = split_at(y.sizes(), dim);
  const int64_t lines = s.outer * s.inner;
  visit_device_compute<dtypes::floating>(y.dtype(), [&]<class C>() {
    if (s.size <= 32 || (s.inner > 1 && lines >= 4096))
      MOONLET_LAUNCH((threads_kernel<C>), blocks_for(lines), kBlock, 0, call.stream(), s, log,
                     backward, array(g), array(x), array(y));
    else
      MOONLET_LAUNCH((blocks_kernel<C>), blocks_for(lines * kBlock), kBlock, 0, call.stream(), s,
                     log, backward, array(g), array(x), array(y));
  });
  call.done();
}

}  // namespace

void softmax(const Tensor& x, int64_t dim, Tensor& y) { run("softmax", {}, x, dim, false, y); }
void log_softmax(const Tensor& x, int64_t dim, Tensor& y) {
  run("log_softmax", {}, x, dim, true, y);
}
void softmax_grad_x(const Tensor& grad, const Tensor& result, int64_t dim, Tensor& y) {
  run("softmax_grad_x", grad, result, dim, false, y);
}
void log_softmax_grad_x(const Tensor& grad, const Tensor& result, int64_t dim, Tensor& y) {
  run("log_softmax_grad_x", grad, result, dim, true, y);
}

}  // namespace moonlet::cuda
