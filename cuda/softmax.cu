// cuda/softmax.cu: softmax, log_softmax and their gradients along one dimension. Rows in memory are
// held in registers by some lanes or a block; longer ones are read twice. Of other lines, a thread
// does one where they are short or lie side by side, else a block.
#include <cmath>

#include "cuda/device.h"
#include "cuda/geometry.cuh"
#include "cuda/rows.cuh"
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

struct BlockReduce {
  template <class C>
  __device__ static C sum(C v) {
    return combine_block(v, AddUp());
  }
  template <class C>
  __device__ static C largest(C v) {
    return combine_block(v, TakeLargest());
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

// Rows that teams hold.
template <class C, int kElement>
__global__ void __launch_bounds__(kBlock, 2)
    softmax_rows_kernel(RowPlan p, bool log, PackSource x, char* y) {
  using Row = HeldRow<C, kElement>;
  for (MOONLET_EACH_ROW(p, row, me)) {
    Row held;
    C largest = C(-HUGE_VAL), sum = C(0);
    const bool mine = row < p.rows;
    if (mine) {
      held.load(p, x, row, me);
      each_held<kElement>(p, me, [&](int h, int k, int64_t) {
        largest = TakeLargest()(largest, held.at(x, h, k));
      });
    }
    largest = combine_team(largest, p.team, TakeLargest());
    if (mine)
      each_held<kElement>(p, me,
                          [&](int h, int k, int64_t) { sum += vexp(held.at(x, h, k) - largest); });
    sum = combine_team(sum, p.team, AddUp());
    if (!mine) continue;
    const C shift = log ? largest + vlog(sum) : largest;
    store_held<C, kElement>(p, x, y, row, me, [&](int h, int k, int64_t) {
      const C v = held.at(x, h, k) - shift;
      return log ? v : vexp(v) / sum;
    });
  }
}

// `x` is the result of the forward pass.
template <class C, int kElement>
__global__ void __launch_bounds__(kBlock, 2)
    gradient_rows_kernel(RowPlan p, bool log, PackSource grad, PackSource x, char* y) {
  using Row = HeldRow<C, kElement>;
  for (MOONLET_EACH_ROW(p, row, me)) {
    Row held, slope;
    C sum = C(0);
    const bool mine = row < p.rows;
    if (mine) {
      held.load(p, x, row, me);
      slope.load(p, grad, row, me);
      each_held<kElement>(p, me, [&](int h, int k, int64_t) {
        const C g = slope.at(grad, h, k);
        sum += log ? g : g * held.at(x, h, k);
      });
    }
    sum = combine_team(sum, p.team, AddUp());
    if (!mine) continue;
    store_held<C, kElement>(p, x, y, row, me, [&](int h, int k, int64_t) {
      const C g = slope.at(grad, h, k), r = held.at(x, h, k);
      return log ? g - vexp(r) * sum : r * (g - sum);
    });
  }
}

// The largest value so far and the sum of e^(x - largest).
template <class C>
struct Online {
  C largest, sum;
};
struct JoinOnline {
  template <class C>
  __device__ Online<C> operator()(const Online<C>& a, const Online<C>& b) const {
    const C m = TakeLargest()(a.largest, b.largest);
    if (m == C(-HUGE_VAL)) return {m, C(0)};
    return {m, a.sum * vexp(a.largest - m) + b.sum * vexp(b.largest - m)};
  }
};

// Rows too long to hold: a block reads one, then reads it again and writes.
template <class C, int kElement>
__global__ void __launch_bounds__(kBlock, 2)
    softmax_long_kernel(RowPlan p, bool log, PackSource x, char* y) {
  constexpr int kCount = 16 / kElement;
  for (int64_t row = blockIdx.x; row < p.rows; row += gridDim.x) {
    Online<C> all = {C(-HUGE_VAL), C(0)};
    for (int64_t i = int64_t{threadIdx.x} * kCount; i < p.size; i += kBlock * kCount) {
      const Words<16> pack = load_pack<kElement>(x, row * p.size + i, p.size - i);
      Online<C> now = {C(-HUGE_VAL), C(0)};
      MOONLET_UNROLL
      for (int k = 0; k < kCount; ++k)
        if (i + k < p.size)
          now.largest =
              TakeLargest()(now.largest, decoded<C, kElement>(bits_at<kElement>(pack, k), x.code));
      MOONLET_UNROLL
      for (int k = 0; k < kCount; ++k)
        if (i + k < p.size)
          now.sum += vexp(decoded<C, kElement>(bits_at<kElement>(pack, k), x.code) - now.largest);
      all = JoinOnline()(all, now);
    }
    all = combine_block(all, JoinOnline());
    const C shift = log ? all.largest + vlog(all.sum) : all.largest;
    for (int64_t i = int64_t{threadIdx.x} * kCount; i < p.size; i += kBlock * kCount) {
      const Words<16> pack = load_pack<kElement>(x, row * p.size + i, p.size - i);
      Words<16> out{};
      MOONLET_UNROLL
      for (int k = 0; k < kCount; ++k) {
        const C v = decoded<C, kElement>(bits_at<kElement>(pack, k), x.code) - shift;
        set_bits<kElement>(out, k, encoded<C, kElement>(log ? v : vexp(v) / all.sum, x.code));
      }
      store_pack<kElement>(y, x.aligned, row * p.size + i, p.size - i, out);
    }
  }
}

void run_rows(const Call& call, const DimSplit& s, bool log, bool backward, const Tensor& grad,
              const Tensor& x, Tensor& y) {
  PackSource source = row_source(x, s.size), slope = row_source(grad, s.size);
  source.aligned = source.aligned && slope.aligned && aligned_to(y.raw(), 16);
  slope.aligned = source.aligned;
  visit_floats(y.dtype(), [&]<class C, int kElement>() {
    RowPlan p;
    const bool held = plan_rows(s.outer, s.size, kElement, p);
    const unsigned blocks = blocks_for(held ? s.outer * p.team : s.outer * kBlock);
    if (!held) p = {s.outer, s.size, kBlock};
    if (backward)
      MOONLET_LAUNCH((gradient_rows_kernel<C, kElement>), blocks, kBlock, 0, call.stream(), p, log,
                     slope, source, y.raw());
    else if (held)
      MOONLET_LAUNCH((softmax_rows_kernel<C, kElement>), blocks, kBlock, 0, call.stream(), p, log,
                     source, y.raw());
    else
      MOONLET_LAUNCH((softmax_long_kernel<C, kElement>), blocks, kBlock, 0, call.stream(), p, log,
                     source, y.raw());
  });
}

void run(const char* op, const Tensor& grad, const Tensor& input, int64_t dim, bool log,
         Tensor& y) {
  if (y.numel() == 0) return;
  const Call call(y, op);
  const bool backward = grad.defined();
  const Tensor x = contiguous(input), g = backward ? contiguous(grad) : x;
  const DimSplit s = split_at(y.sizes(), dim);
  const int64_t lines = s.outer * s.inner;
  const bool same = x.dtype() == y.dtype() && g.dtype() == y.dtype() && y.is_contiguous();
  const auto bytes = static_cast<int>(size_of(y.dtype()));
  RowPlan p;
  if (same && s.inner == 1 && (!backward || plan_rows(s.outer, s.size, bytes, p))) {
    run_rows(call, s, log, backward, g, x, y);
    return call.done();
  }
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
