// cuda/kernels/softmax.cu: softmax, log_softmax and their gradients along one dimension. Rows in
// memory are held in registers by some lanes or a block; longer ones are read twice, as lines
// across memory are, whose elements side by side go in packs.
#include <cmath>

#include "cuda/kernels/common/columns.cuh"
#include "cuda/kernels/common/geometry.cuh"
#include "cuda/kernels/common/online_softmax.cuh"
#include "cuda/kernels/common/rows.cuh"
#include "cuda/runtime/device.h"
#include "tensor/functors/functor_math.h"
#include "tensor/kernels_softmax.h"

namespace moonlet::cuda {

namespace {

using namespace fn;  // NOLINT(google-build-using-namespace)

// The results of a pack of x.
template <class T, bool kLog>
struct SoftmaxOf {
  using C = Computed<T>;
  const char* from;
  C shift, scale;
  __device__ __forceinline__ Floats<T> operator()(Floats<T> pack) const {
    MOONLET_UNROLL
    for (int k = 0; k < pack.kCount; ++k)
      pack.v[k] = kLog ? pack.v[k] - shift : exp_for<T>(pack.v[k] - shift) * scale;
    return pack;
  }
  __device__ __forceinline__ Floats<T> operator()(int64_t i, int64_t n) const {
    return (*this)(floats_at<T>(from + i * sizeof(T), n, C(0)));
  }
};

// What a pack adds to the sum that the gradient takes, and the gradients of a pack by that sum.
template <class T, bool kLog>
__device__ __forceinline__ Computed<T> gradient_term(const Floats<T>& gradients,
                                                     const Floats<T>& results) {
  Computed<T> sum(0);
  MOONLET_UNROLL
  for (int k = 0; k < results.kCount; ++k)
    sum += kLog ? gradients.v[k] : gradients.v[k] * results.v[k];
  return sum;
}
template <class T, bool kLog>
__device__ __forceinline__ Floats<T> gradient_pack(const Floats<T>& gradients, Floats<T> results,
                                                   Computed<T> sum) {
  MOONLET_UNROLL
  for (int k = 0; k < results.kCount; ++k) {
    const Computed<T> g = gradients.v[k], r = results.v[k];
    results.v[k] = kLog ? g - exp_for<T>(r) * sum : r * (g - sum);
  }
  return results;
}
template <class T, bool kLog>
struct GradientOf {
  const char *grad, *x;
  Computed<T> sum;
  __device__ __forceinline__ Floats<T> operator()(int64_t i, int64_t n) const {
    return gradient_pack<T, kLog>(floats_at<T>(grad + i * sizeof(T), n, Computed<T>(0)),
                                  floats_at<T>(x + i * sizeof(T), n, Computed<T>(0)), sum);
  }
};

// Rows that teams hold. As packs lie at multiples of 16 bytes only where rows do, elements of
// others are read again in the order in which they are written.
template <class T, bool kLog>
__global__ void __launch_bounds__(kBlock, 2)
    softmax_rows_kernel(RowPlan p, const char* x, char* y) {
  using C = Computed<T>;
  constexpr int kCount = Floats<T>::kCount;
  for (MOONLET_EACH_ROW(p, row, me)) {
    const char* from = x + row * p.size * sizeof(T);
    char* to = y + row * p.size * sizeof(T);
    HeldRow<T> held;
    const int count = row < p.rows ? held.held(p.size, p.team_log, me) : 0;
    held.load(from, p.size, p.whole, p.team_log, me, count, C(-HUGE_VAL));
    C largest = C(-HUGE_VAL), sum = C(0);
    each_pack(count, [&](int h) {
      MOONLET_UNROLL
      for (int k = 0; k < kCount; ++k) largest = larger(largest, held.packs[h].v[k]);
    });
    largest = combine_alike(largest, p.team, TakeLargest());
    each_pack(count, [&](int h) {
      C part = C(0);
      MOONLET_UNROLL
      for (int k = 0; k < kCount; ++k) {
        C& v = held.packs[h].v[k];
        const C e = exp_for<T>(v - largest);
        part += e;
        if constexpr (!kLog) v = e;
      }
      sum += part;
    });
    sum = combine_alike(sum, p.team, AddUp());
    const C shift = kLog ? largest + vlog(sum) : largest, scale = C(1) / sum;
    if (p.whole) {
      each_pack(count, [&](int h) {
        MOONLET_UNROLL
        for (int k = 0; k < kCount; ++k) {
          C& v = held.packs[h].v[k];
          v = kLog ? v - shift : v * scale;
        }
      });
      held.store(to, p.team_log, me, count);
    } else if (row < p.rows) {
      write_row<T>(to, p.size, p.team, me, SoftmaxOf<T, kLog>{from, shift, scale});
    }
  }
}

// `x` is the result of the forward pass.
template <class T, bool kLog>
__global__ void __launch_bounds__(kBlock, 2)
    gradient_rows_kernel(RowPlan p, const char* grad, const char* x, char* y) {
  using C = Computed<T>;
  for (MOONLET_EACH_ROW(p, row, me)) {
    const int64_t begin = row * p.size * sizeof(T);
    HeldRow<T> held, gradient;
    const int count = row < p.rows ? held.held(p.size, p.team_log, me) : 0;
    held.load(x + begin, p.size, p.whole, p.team_log, me, count, C(0));
    gradient.load(grad + begin, p.size, p.whole, p.team_log, me, count, C(0));
    C sum = C(0);
    each_pack(count,
              [&](int h) { sum += gradient_term<T, kLog>(gradient.packs[h], held.packs[h]); });
    sum = combine_alike(sum, p.team, AddUp());
    if (p.whole) {
      each_pack(count, [&](int h) {
        held.packs[h] = gradient_pack<T, kLog>(gradient.packs[h], held.packs[h], sum);
      });
      held.store(y + begin, p.team_log, me, count);
    } else if (row < p.rows) {
      write_row<T>(y + begin, p.size, p.team, me,
                   GradientOf<T, kLog>{grad + begin, x + begin, sum});
    }
  }
}

// Rows too long to hold: a block reads one in pieces that it holds, then reads it again and writes.
template <class T, bool kLog>
__global__ void __launch_bounds__(kBlock, 2)
    softmax_long_kernel(RowPlan p, const char* x, char* y) {
  using C = Computed<T>;
  constexpr int kCount = Floats<T>::kCount;
  const int me = static_cast<int>(threadIdx.x);
  for (int64_t row = blockIdx.x; row < p.rows; row += gridDim.x) {
    const char* from = x + row * p.size * sizeof(T);
    char* to = y + row * p.size * sizeof(T);
    Online<C> all = Online<C>::none();
    for (RowPieces<T> piece(p.size, me); piece.more(); piece.next()) {
      HeldRow<T> held;
      piece.load(held, from, p, C(-HUGE_VAL));
      take_online<T>(all, [&](const auto& take) {
        each_pack(piece.count, [&](int h) {
          MOONLET_UNROLL
          for (int k = 0; k < kCount; ++k) take(held.packs[h].v[k]);
        });
      });
    }
    all = combine_block(all, JoinOnline());
    const C shift = kLog ? all.largest + vlog(all.sum) : all.largest, scale = C(1) / all.sum;
    const auto make = SoftmaxOf<T, kLog>{from, shift, scale};
    if (p.whole)
      for (RowPieces<T> piece(p.size, me); piece.more(); piece.next()) {
        HeldRow<T> held;
        piece.load(held, from, p, C(0));
        each_pack(piece.count, [&](int h) { held.packs[h] = make(held.packs[h]); });
        piece.store(held, to);
      }
    else
      write_row<T>(to, p.size, kBlock, me, make);
  }
}

template <class T, bool kLog>
__global__ void __launch_bounds__(kBlock, 2)
    gradient_long_kernel(RowPlan p, const char* grad, const char* x, char* y) {
  using C = Computed<T>;
  const int me = static_cast<int>(threadIdx.x);
  for (int64_t row = blockIdx.x; row < p.rows; row += gridDim.x) {
    const int64_t begin = row * p.size * sizeof(T);
    C sum = C(0);
    for (RowPieces<T, 2> piece(p.size, me); piece.more(); piece.next()) {
      HeldRow<T, 2> held, gradient;
      piece.load(gradient, grad + begin, p, C(0));
      if constexpr (!kLog) piece.load(held, x + begin, p, C(0));
      each_pack<2>(piece.count,
                   [&](int h) { sum += gradient_term<T, kLog>(gradient.packs[h], held.packs[h]); });
    }
    sum = combine_block(sum, AddUp());
    if (p.whole)
      for (RowPieces<T, 2> piece(p.size, me); piece.more(); piece.next()) {
        HeldRow<T, 2> held, gradient;
        piece.load(gradient, grad + begin, p, C(0));
        piece.load(held, x + begin, p, C(0));
        each_pack<2>(piece.count, [&](int h) {
          held.packs[h] = gradient_pack<T, kLog>(gradient.packs[h], held.packs[h], sum);
        });
        piece.store(held, y + begin);
      }
    else
      write_row<T>(y + begin, p.size, kBlock, me,
                   GradientOf<T, kLog>{grad + begin, x + begin, sum});
  }
}

template <class T, bool kLog>
__global__ void __launch_bounds__(kBlock, 2)
    softmax_columns_kernel(Columns c, const char* x, char* y) {
  using C = Computed<T>;
  constexpr int kCount = Floats<T>::kCount, kFlight = 4;
  __shared__ SharedArray<Online<C>, kBlock> memory;
  for (int64_t job = blockIdx.x; job < c.outer * c.tiles; job += gridDim.x) {
    const ColumnPosition position = column_position<kCount>(c, job);
    const int64_t step = c.inner * position.teams * sizeof(T);
    const int64_t begin = (position.base + position.team * c.inner) * sizeof(T);
    Online<C> all[kCount];
    MOONLET_UNROLL
    for (int k = 0; k < kCount; ++k) all[k] = Online<C>::none();
    const char* from = x + begin;
    for (int64_t i = position.team; position.valid > 0 && i < c.size;
         i += kFlight * position.teams) {
      Floats<T> packs[kFlight];
      MOONLET_UNROLL
      for (int f = 0; f < kFlight; ++f) {
        if (i + int64_t{f} * position.teams < c.size)
          packs[f] = pack_at<T>(from, c.whole, position.valid, C(-HUGE_VAL));
        else
          for (int k = 0; k < kCount; ++k) packs[f].v[k] = C(-HUGE_VAL);
        from += step;
      }
      MOONLET_UNROLL
      for (int k = 0; k < kCount; ++k)
        take_online<T>(all[k], [&](const auto& take) {
          MOONLET_UNROLL
          for (int f = 0; f < kFlight; ++f) take(packs[f].v[k]);
        });
    }
    combine_teams<Online<C>, kCount>(all, memory.get(), c, position, JoinOnline());
    if (position.valid == 0) continue;
    C shifts[kCount], scales[kCount];
    MOONLET_UNROLL
    for (int k = 0; k < kCount; ++k) {
      shifts[k] = kLog ? all[k].largest + vlog(all[k].sum) : all[k].largest;
      scales[k] = C(1) / all[k].sum;
    }
    from = x + begin;
    char* to = y + begin;
    for (int64_t i = position.team; i < c.size; i += position.teams, from += step, to += step) {
      Floats<T> pack = pack_at<T>(from, c.whole, position.valid, C(0));
      MOONLET_UNROLL
      for (int k = 0; k < kCount; ++k) {
        const C v = pack.v[k] - shifts[k];
        pack.v[k] = kLog ? v : exp_for<T>(v) * scales[k];
      }
      store_columns<T>(to, c.whole, position.valid, pack);
    }
  }
}

template <class T, bool kLog>
__global__ void __launch_bounds__(kBlock, 2)
    gradient_columns_kernel(Columns c, const char* grad, const char* x, char* y) {
  using C = Computed<T>;
  constexpr int kCount = Floats<T>::kCount;
  __shared__ SharedArray<C, kBlock> memory;
  for (int64_t job = blockIdx.x; job < c.outer * c.tiles; job += gridDim.x) {
    const ColumnPosition position = column_position<kCount>(c, job);
    const int64_t step = c.inner * position.teams * sizeof(T);
    const int64_t begin = (position.base + position.team * c.inner) * sizeof(T);
    C sums[kCount] = {};
    int64_t at = begin;
    for (int64_t i = position.team; position.valid > 0 && i < c.size;
         i += position.teams, at += step) {
      const Floats<T> gradients = pack_at<T>(grad + at, c.whole, position.valid, C(0));
      Floats<T> results;
      if constexpr (!kLog) results = pack_at<T>(x + at, c.whole, position.valid, C(0));
      MOONLET_UNROLL
      for (int k = 0; k < kCount; ++k)
        sums[k] += kLog ? gradients.v[k] : gradients.v[k] * results.v[k];
    }
    combine_teams<C, kCount>(sums, memory.get(), c, position, AddUp());
    if (position.valid == 0) continue;
    at = begin;
    for (int64_t i = position.team; i < c.size; i += position.teams, at += step) {
      const Floats<T> gradients = pack_at<T>(grad + at, c.whole, position.valid, C(0));
      Floats<T> results = pack_at<T>(x + at, c.whole, position.valid, C(0));
      MOONLET_UNROLL
      for (int k = 0; k < kCount; ++k) {
        const C g = gradients.v[k], r = results.v[k];
        results.v[k] = kLog ? g - exp_for<T>(r) * sums[k] : r * (g - sums[k]);
      }
      store_columns<T>(y + at, c.whole, position.valid, results);
    }
  }
}

// Calls f.template operator()<T, kLog>() for tensors of one dtype.
template <class F>
void visit_kinds(DType t, bool log, const F& f) {
  visit_float_types(t, [&]<class T>() {
    if (log)
      f.template operator()<T, true>();
    else
      f.template operator()<T, false>();
  });
}

void run_columns(const Call& call, const DimSplit& s, bool log, bool backward, const Tensor& grad,
                 const Tensor& x, Tensor& y) {
  const int bytes = static_cast<int>(size_of(y.dtype()));
  Columns c = columns_of(s, 16 / bytes);
  c.whole = s.inner * bytes % 16 == 0 && aligned_to(x.raw(), 16) && aligned_to(grad.raw(), 16) &&
            aligned_to(y.raw(), 16);
  const unsigned blocks = blocks_for(c.outer * c.tiles * kBlock);
  visit_kinds(y.dtype(), log, [&]<class T, bool kLog>() {
    if (backward)
      MOONLET_LAUNCH((gradient_columns_kernel<T, kLog>), blocks, kBlock, 0, call.stream(), c,
                     grad.raw(), x.raw(), y.raw());
    else
      MOONLET_LAUNCH((softmax_columns_kernel<T, kLog>), blocks, kBlock, 0, call.stream(), c,
                     x.raw(), y.raw());
  });
}

void run_rows(const Call& call, const DimSplit& s, bool log, bool backward, const Tensor& grad,
              const Tensor& x, Tensor& y) {
  const int bytes = static_cast<int>(size_of(y.dtype()));
  const bool held = can_hold(s.outer, s.size, bytes);
  const RowPlan p = plan_teams(s.outer, s.size, held ? holding_team(s.size, bytes) : kBlock, bytes,
                               {&grad, &x, &y});
  const unsigned blocks = blocks_for(s.outer * p.team);
  visit_kinds(y.dtype(), log, [&]<class T, bool kLog>() {
    if (backward && !held)
      MOONLET_LAUNCH((gradient_long_kernel<T, kLog>), blocks, kBlock, 0, call.stream(), p,
                     grad.raw(), x.raw(), y.raw());
    else if (backward)
      MOONLET_LAUNCH((gradient_rows_kernel<T, kLog>), blocks, kBlock, 0, call.stream(), p,
                     grad.raw(), x.raw(), y.raw());
    else if (held)
      MOONLET_LAUNCH((softmax_rows_kernel<T, kLog>), blocks, kBlock, 0, call.stream(), p, x.raw(),
                     y.raw());
    else
      MOONLET_LAUNCH((softmax_long_kernel<T, kLog>), blocks, kBlock, 0, call.stream(), p, x.raw(),
                     y.raw());
  });
}

void run(const char* op, const Tensor& grad, const Tensor& input, int64_t dim, bool log,
         Tensor& result) {
  if (result.numel() == 0) return;
  const Call call(result, op);
  const bool backward = grad.defined();
  const DType dtype = result.dtype();
  const Tensor x = converted(input, dtype), g = backward ? converted(grad, dtype) : x;
  const DimSplit s = split_at(result.sizes(), dim);
  with_contiguous(result, [&](Tensor& y) {
    (s.inner == 1 ? run_rows : run_columns)(call, s, log, backward, g, x, y);
    call.done();
  });
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
