// cuda/kernels/softmax.cu: softmax, log_softmax and their gradients along one dimension. Rows in
// memory are held in registers by some lanes or a block; longer ones are read twice, as lines
// across memory are, whose elements side by side go in packs. Of tensors of two dtypes a thread
// does a line where they are short or lie side by side, else a block.
#include <cmath>

#include "cuda/kernels/common/geometry.cuh"
#include "cuda/kernels/common/rows.cuh"
#include "cuda/runtime/device.h"
#include "tensor/functors/functor_math.h"
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
    Row held, gradient;
    C sum = C(0);
    const bool mine = row < p.rows;
    if (mine) {
      held.load(p, x, row, me);
      gradient.load(p, grad, row, me);
      each_held<kElement>(p, me, [&](int h, int k, int64_t) {
        const C g = gradient.at(grad, h, k);
        sum += log ? g : g * held.at(x, h, k);
      });
    }
    sum = combine_team(sum, p.team, AddUp());
    if (!mine) continue;
    store_held<C, kElement>(p, x, y, row, me, [&](int h, int k, int64_t) {
      const C g = gradient.at(grad, h, k), r = held.at(x, h, k);
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
    return {m, share(a, m) + share(b, m)};
  }
  // What is -inf throughout adds nothing, though its own sum is of e^(inf - inf).
  template <class C>
  __device__ static C share(const Online<C>& part, C largest) {
    return part.largest == C(-HUGE_VAL) ? C(0) : part.sum * vexp(part.largest - largest);
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

template <class C, int kElement>
__global__ void __launch_bounds__(kBlock, 2)
    gradient_long_kernel(RowPlan p, bool log, PackSource grad, PackSource x, char* y) {
  constexpr int kCount = 16 / kElement;
  for (int64_t row = blockIdx.x; row < p.rows; row += gridDim.x) {
    const auto each = [&](const auto& f) {
      for (int64_t i = int64_t{threadIdx.x} * kCount; i < p.size; i += kBlock * kCount)
        f(i, load_pack<kElement>(grad, row * p.size + i, p.size - i),
          load_pack<kElement>(x, row * p.size + i, p.size - i));
    };
    C sum = C(0);
    each([&](int64_t i, const Words<16>& gradients, const Words<16>& results) {
      C round = C(0);
      MOONLET_UNROLL
      for (int k = 0; k < kCount; ++k) {
        const C g = decoded<C, kElement>(bits_at<kElement>(gradients, k), grad.code);
        const C r = decoded<C, kElement>(bits_at<kElement>(results, k), x.code);
        if (i + k < p.size) round += log ? g : g * r;
      }
      sum += round;
    });
    sum = combine_block(sum, AddUp());
    each([&](int64_t i, const Words<16>& gradients, const Words<16>& results) {
      Words<16> out{};
      MOONLET_UNROLL
      for (int k = 0; k < kCount; ++k) {
        const C g = decoded<C, kElement>(bits_at<kElement>(gradients, k), grad.code);
        const C r = decoded<C, kElement>(bits_at<kElement>(results, k), x.code);
        set_bits<kElement>(out, k,
                           encoded<C, kElement>(log ? g - vexp(r) * sum : r * (g - sum), x.code));
      }
      store_pack<kElement>(y, x.aligned, row * p.size + i, p.size - i, out);
    });
  }
}

// Lines across memory: `lanes` threads stand on packs of columns, the teams of a block take turns
// along the lines.
struct Columns {
  int64_t outer, size, inner, tiles;
  int lanes;
};

Columns columns_of(const DimSplit& s, int kCount) {
  const int64_t packs = (s.inner + kCount - 1) / kCount;
  int lanes = lanes_for(packs);
  // Short lines keep few teams busy.
  while (lanes >= kWarp && lanes < kBlock && lanes < packs && kBlock / lanes * 4 > s.size)
    lanes *= 2;
  return {s.outer, s.size, s.inner, (packs + lanes - 1) / lanes, lanes};
}

// Where a thread is in a tile of columns; `valid` columns are its own, maybe none.
struct ColumnPosition {
  int64_t base;
  int team, teams, valid;
};
template <int kCount>
__device__ __forceinline__ ColumnPosition column_position(const Columns& c, int64_t job) {
  const int64_t outer = job / c.tiles;
  const int64_t column = ((job - outer * c.tiles) * c.lanes + threadIdx.x % c.lanes) * kCount;
  const int64_t left = c.inner - column;
  return {outer * c.size * c.inner + column, static_cast<int>(threadIdx.x) / c.lanes,
          kBlock / c.lanes,
          static_cast<int>(left < 0        ? 0
                           : left < kCount ? left
                                           : kCount)};
}

// The combination of the teams' values of each column, at every team.
template <class T, int kCount, class Combine>
__device__ __forceinline__ void combine_teams(T* values, T* shared, const Columns& c,
                                              const ColumnPosition& position,
                                              const Combine& combine) {
  if (position.teams == 1) return;
  MOONLET_UNROLL
  for (int k = 0; k < kCount; ++k) {
    T* mine = shared + threadIdx.x;
    *mine = values[k];
    __syncthreads();
    for (int half_way = position.teams / 2; half_way > 0; half_way /= 2) {
      if (position.team < half_way) *mine = combine(*mine, mine[half_way * c.lanes]);
      __syncthreads();
    }
    values[k] = shared[threadIdx.x % c.lanes];
    __syncthreads();
  }
}

template <class C, int kElement>
__global__ void __launch_bounds__(kBlock, 2)
    softmax_columns_kernel(Columns c, bool log, PackSource x, char* y) {
  constexpr int kCount = 16 / kElement, kFlight = 4;
  __shared__ SharedArray<Online<C>, kBlock> memory;
  for (int64_t job = blockIdx.x; job < c.outer * c.tiles; job += gridDim.x) {
    const ColumnPosition position = column_position<kCount>(c, job);
    Online<C> all[kCount];
    for (int k = 0; k < kCount; ++k) all[k] = {C(-HUGE_VAL), C(0)};
    for (int64_t i = position.team; position.valid > 0 && i < c.size;
         i += kFlight * position.teams) {
      Words<16> packs[kFlight];
      MOONLET_UNROLL
      for (int f = 0; f < kFlight; ++f) {
        const int64_t at = i + int64_t{f} * position.teams;
        if (at < c.size)
          packs[f] = load_pack<kElement>(x, position.base + at * c.inner, position.valid);
      }
      MOONLET_UNROLL
      for (int k = 0; k < kCount; ++k) {
        Online<C> now = {C(-HUGE_VAL), C(0)};
        C values[kFlight];
        MOONLET_UNROLL
        for (int f = 0; f < kFlight; ++f) {
          if (i + int64_t{f} * position.teams >= c.size) continue;
          values[f] = decoded<C, kElement>(bits_at<kElement>(packs[f], k), x.code);
          now.largest = TakeLargest()(now.largest, values[f]);
        }
        MOONLET_UNROLL
        for (int f = 0; f < kFlight; ++f)
          if (i + int64_t{f} * position.teams < c.size) now.sum += vexp(values[f] - now.largest);
        all[k] = JoinOnline()(all[k], now);
      }
    }
    combine_teams<Online<C>, kCount>(all, memory.get(), c, position, JoinOnline());
    if (position.valid == 0) continue;
    for (int64_t i = position.team; i < c.size; i += position.teams) {
      const int64_t at = position.base + i * c.inner;
      const Words<16> pack = load_pack<kElement>(x, at, position.valid);
      Words<16> out{};
      MOONLET_UNROLL
      for (int k = 0; k < kCount; ++k) {
        const C v = decoded<C, kElement>(bits_at<kElement>(pack, k), x.code) - all[k].largest;
        set_bits<kElement>(
            out, k,
            encoded<C, kElement>(log ? v - vlog(all[k].sum) : vexp(v) / all[k].sum, x.code));
      }
      store_pack<kElement>(y, x.aligned, at, position.valid, out);
    }
  }
}

template <class C, int kElement>
__global__ void __launch_bounds__(kBlock, 2)
    gradient_columns_kernel(Columns c, bool log, PackSource grad, PackSource x, char* y) {
  constexpr int kCount = 16 / kElement;
  __shared__ SharedArray<C, kBlock> memory;
  for (int64_t job = blockIdx.x; job < c.outer * c.tiles; job += gridDim.x) {
    const ColumnPosition position = column_position<kCount>(c, job);
    C sums[kCount] = {};
    for (int64_t i = position.team; position.valid > 0 && i < c.size; i += position.teams) {
      const Words<16> gradients =
          load_pack<kElement>(grad, position.base + i * c.inner, position.valid);
      const Words<16> results = load_pack<kElement>(x, position.base + i * c.inner, position.valid);
      MOONLET_UNROLL
      for (int k = 0; k < kCount; ++k) {
        const C g = decoded<C, kElement>(bits_at<kElement>(gradients, k), grad.code);
        sums[k] += log ? g : g * decoded<C, kElement>(bits_at<kElement>(results, k), x.code);
      }
    }
    combine_teams<C, kCount>(sums, memory.get(), c, position, AddUp());
    if (position.valid == 0) continue;
    for (int64_t i = position.team; i < c.size; i += position.teams) {
      const int64_t at = position.base + i * c.inner;
      const Words<16> gradients = load_pack<kElement>(grad, at, position.valid);
      const Words<16> results = load_pack<kElement>(x, at, position.valid);
      Words<16> out{};
      MOONLET_UNROLL
      for (int k = 0; k < kCount; ++k) {
        const C g = decoded<C, kElement>(bits_at<kElement>(gradients, k), grad.code);
        const C r = decoded<C, kElement>(bits_at<kElement>(results, k), x.code);
        set_bits<kElement>(
            out, k, encoded<C, kElement>(log ? g - vexp(r) * sums[k] : r * (g - sums[k]), x.code));
      }
      store_pack<kElement>(y, x.aligned, at, position.valid, out);
    }
  }
}

void run_columns(const Call& call, const DimSplit& s, bool log, bool backward, const Tensor& grad,
                 const Tensor& x, Tensor& y) {
  PackSource source = row_source(x, s.inner), gradient = row_source(grad, s.inner);
  source.aligned = source.aligned && gradient.aligned && aligned_to(y.raw(), 16);
  gradient.aligned = source.aligned;
  visit_floats(y.dtype(), [&]<class C, int kElement>() {
    const Columns c = columns_of(s, 16 / kElement);
    const unsigned blocks = blocks_for(c.outer * c.tiles * kBlock);
    if (backward)
      MOONLET_LAUNCH((gradient_columns_kernel<C, kElement>), blocks, kBlock, 0, call.stream(), c,
                     log, gradient, source, y.raw());
    else
      MOONLET_LAUNCH((softmax_columns_kernel<C, kElement>), blocks, kBlock, 0, call.stream(), c,
                     log, source, y.raw());
  });
}

void run_rows(const Call& call, const DimSplit& s, bool log, bool backward, const Tensor& grad,
              const Tensor& x, Tensor& y) {
  PackSource source = row_source(x, s.size), gradient = row_source(grad, s.size);
  source.aligned = source.aligned && gradient.aligned && aligned_to(y.raw(), 16);
  gradient.aligned = source.aligned;
  visit_floats(y.dtype(), [&]<class C, int kElement>() {
    RowPlan p;
    const bool held = plan_rows(s.outer, s.size, kElement, p);
    const unsigned blocks = blocks_for(held ? s.outer * p.team : s.outer * kBlock);
    if (!held) p = {s.outer, s.size, kBlock};
    if (backward && !held)
      MOONLET_LAUNCH((gradient_long_kernel<C, kElement>), blocks, kBlock, 0, call.stream(), p, log,
                     gradient, source, y.raw());
    else if (backward)
      MOONLET_LAUNCH((gradient_rows_kernel<C, kElement>), blocks, kBlock, 0, call.stream(), p, log,
                     gradient, source, y.raw());
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
  if (same) {
    (s.inner == 1 ? run_rows : run_columns)(call, s, log, backward, g, x, y);
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
