// cuda/kernels/normalization/layer_norm.cu: layer_norm and rms_norm of rows in memory and their
// gradients, each by itself. Rows are held in registers by some lanes or a block; longer ones are
// read again. Where the pointer to the means is null they are 0, which is rms_norm.
#include "cuda/kernels/normalization/layer_norm.cuh"

#include <algorithm>

#include "tensor/kernels_create.h"
#include "tensor/kernels_reduce.h"

namespace moonlet::cuda {

namespace {

// The sums over a row of the distances of its numbers from about their mean, and of their squares.
template <class C>
struct Distances {
  C drift, squares;
  template <class T>
  __device__ __forceinline__ void add(const Floats<T>& pack, C mean) {
    MOONLET_UNROLL
    for (int k = 0; k < pack.kCount; ++k) {
      const C distance = pack.v[k] - mean;
      drift += distance;
      squares += distance * distance;
    }
  }
};
template <class T>
__device__ __forceinline__ Computed<T> sum_of(const Floats<T>& pack) {
  Computed<T> sum(0);
  MOONLET_UNROLL
  for (int k = 0; k < pack.kCount; ++k) sum += pack.v[k];
  return sum;
}

// What every thread of a team knows of its row of numbers, from its mean up to rounding and its
// own distances from that; `rows` are all.
template <class T>
__device__ __forceinline__ Spread row_spread(const RowPlan& p, const char* row, bool mine, int me,
                                             bool centred, Computed<T> mean,
                                             Distances<Computed<T>> distances, double inverse,
                                             double eps) {
  using C = Computed<T>;
  const C squares = combine_alike(distances.squares, p.team, AddUp());
  C drift = C(0);
  if (centred) drift = combine_alike(distances.drift, p.team, AddUp()) * static_cast<C>(inverse);
  const C n = static_cast<C>(p.size);
  Spread spread = {mean, drift, static_cast<double>(squares) - n * drift * drift, 1};
  const bool left = mine && left_range<C>(spread.squares, p.size, eps);
  if (any_of_team(left, p.team)) {
    const Spread wide =
        spread_in_double(mine ? p.size : 0, p.size, me, p.team, centred, [row](int64_t i) {
          return static_cast<double>(floats_at<T>(row + i * sizeof(T), 1, C(0)).v[0]);
        });
    if (left) spread = wide;
  }
  return spread;
}

// Rows that teams hold; `inverse` is 1 / their size.
template <class T, class W>
__global__ void __launch_bounds__(kBlock, 2)
    normalise_rows_kernel(RowPlan p, RowInputs in, double inverse, double eps, char* y,
                          double* mean, double* rstd) {
  using C = Computed<T>;
  using Normal = NormalOf<T, W>;
  const bool centred = mean != nullptr;
  for (MOONLET_EACH_ROW(p, row, me)) {
    const bool mine = row < p.rows;
    const char* from = in.x + row * p.size * sizeof(T);
    char* to = y + row * p.size * sizeof(T);
    HeldRow<T> held;
    const int count = mine ? held.held(p.size, p.team_log, me) : 0;
    held.load(from, p.size, p.whole, p.team_log, me, count, C(0));
    C m = C(0);
    if (centred) {
      each_pack(count, [&](int h) { m += sum_of<T>(held.packs[h]); });
      m = combine_alike(m, p.team, AddUp()) * static_cast<C>(inverse);
    }
    if (!p.whole) held.fill_rest(p.size, p.team_log, me, count, m);
    Distances<C> distances = {C(0), C(0)};
    each_pack(count, [&](int h) { distances.add(held.packs[h], m); });
    const Spread spread = row_spread<T>(p, from, mine, me, centred, m, distances, inverse, eps);
    if (!mine) continue;
    const Center<C> center(spread, p.size, eps);
    if (me == 0) {
      if (centred) mean[row] = center.exact_mean;
      rstd[row] = center.exact_rstd;
    }
    if (!p.whole || center.wide) {
      write_row<T>(to, p.size, p.team, me, Normal{in, from, center});
      continue;
    }
    each_pack(count, [&](int h) {
      MOONLET_UNROLL
      for (int k = 0; k < held.kCount; ++k) held.packs[h].v[k] = center.usual(held.packs[h].v[k]);
      if (in.weight != nullptr)
        Normal::scale(held.packs[h], held_weights<T, W>(in.weight, p, true, me, h));
      if (in.bias != nullptr)
        Normal::move(held.packs[h], held_weights<T, W>(in.bias, p, true, me, h));
    });
    held.store(to, p.team_log, me, count);
  }
}

// Rows too long to hold: a block reads one three times, without means twice.
template <class T, class W>
__global__ void __launch_bounds__(kBlock, 2)
    normalise_long_kernel(RowPlan p, RowInputs in, double inverse, double eps, char* y,
                          double* mean, double* rstd) {
  using C = Computed<T>;
  const int me = static_cast<int>(threadIdx.x);
  const bool centred = mean != nullptr;
  for (int64_t row = blockIdx.x; row < p.rows; row += gridDim.x) {
    const char* from = in.x + row * p.size * sizeof(T);
    C m = C(0);
    if (centred) {
      for (RowPieces<T> piece(p.size, me); piece.more(); piece.next()) {
        HeldRow<T> held;
        piece.load(held, from, p, C(0));
        each_pack(piece.count, [&](int h) { m += sum_of<T>(held.packs[h]); });
      }
      m = combine_block(m, AddUp()) * static_cast<C>(inverse);
    }
    Distances<C> distances = {C(0), C(0)};
    for (RowPieces<T> piece(p.size, me); piece.more(); piece.next()) {
      HeldRow<T> held;
      piece.load(held, from, p, m);
      each_pack(piece.count, [&](int h) { distances.add(held.packs[h], m); });
    }
    const Center<C> center(row_spread<T>(p, from, true, me, centred, m, distances, inverse, eps),
                           p.size, eps);
    if (me == 0) {
      if (centred) mean[row] = center.exact_mean;
      rstd[row] = center.exact_rstd;
    }
    write_row<T>(y + row * p.size * sizeof(T), p.size, kBlock, me,
                 NormalOf<T, W>{in, from, center});
  }
}

template <class T, class W>
__global__ void __launch_bounds__(kBlock, 2)
    norm_gradient_rows_kernel(RowPlan p, const char* grad, RowInputs in, const double* mean,
                              const double* rstd, double inverse, char* y) {
  using C = Computed<T>;
  const bool centred = mean != nullptr;
  for (MOONLET_EACH_ROW(p, row, me)) {
    const bool mine = row < p.rows;
    const int64_t begin = row * p.size * sizeof(T);
    HeldRow<T> gradient;
    HeldWords<> numbers;  // in half the registers that two bytes would take as float32
    const int count = mine && p.whole ? gradient.held(p.size, p.team_log, me) : 0;
    numbers.load(in.x + begin, p.team_log, me, count);
    gradient.load(grad + begin, p.size, true, p.team_log, me, count, C(0));
    const auto center_of_row = [&] {
      return Center<C>(mine && centred ? mean[row] : 0, mine ? rstd[row] : 1, p.size);
    };
    const auto gradient_of_row = [&](C first, C second) {
      return RowGradientOf<T, W>{grad + begin,    in.x + begin, in.weight,
                                 center_of_row(), first,        second};
    };
    const Center<C> center = center_of_row();
    const bool held_row = p.whole && !center.wide;
    const auto normals = [&](int h) {
      Floats<T> v = unpacked<T>(numbers.packs[h]);
      MOONLET_UNROLL
      for (int k = 0; k < v.kCount; ++k) v.v[k] = center.usual(v.v[k]);
      return v;
    };
    C first = C(0), second = C(0);
    if (held_row) {
      each_pack(count, [&](int h) {
        if (in.weight != nullptr)
          NormalOf<T, W>::scale(gradient.packs[h], held_weights<T, W>(in.weight, p, true, me, h));
        add_terms<T>(gradient.packs[h], normals(h), first, second);
      });
    } else if (mine) {
      RowGradientOf<T, W> of = gradient_of_row(C(0), C(0));
      of.add(p.size, p.team, me);
      first = of.first, second = of.second;
    }
    first = centred ? combine_alike(first, p.team, AddUp()) * static_cast<C>(inverse) : C(0);
    second = combine_alike(second, p.team, AddUp()) * static_cast<C>(inverse);
    if (!mine) continue;
    if (held_row) {
      each_pack(count, [&](int h) {
        const Floats<T> v = normals(h);
        MOONLET_UNROLL
        for (int k = 0; k < v.kCount; ++k) {
          C& e = gradient.packs[h].v[k];
          e = (e - first - v.v[k] * second) * center.rstd;
        }
      });
      gradient.store(y + begin, p.team_log, me, count);
    } else {
      write_row<T>(y + begin, p.size, p.team, me, gradient_of_row(first, second));
    }
  }
}

// Rows too long to hold: a block reads one twice.
template <class T, class W>
__global__ void __launch_bounds__(kBlock, 2)
    norm_gradient_long_kernel(RowPlan p, const char* grad, RowInputs in, const double* mean,
                              const double* rstd, double inverse, char* y) {
  using C = Computed<T>;
  const int me = static_cast<int>(threadIdx.x);
  const bool centred = mean != nullptr;
  for (int64_t row = blockIdx.x; row < p.rows; row += gridDim.x) {
    const int64_t begin = row * p.size * sizeof(T);
    const Center<C> center(centred ? mean[row] : 0, rstd[row], p.size);
    RowGradientOf<T, W> of = {grad + begin, in.x + begin, in.weight, center, C(0), C(0)};
    of.add(p.size, kBlock, me);
    of.first = centred ? combine_block(of.first, AddUp()) * static_cast<C>(inverse) : C(0);
    of.second = combine_block(of.second, AddUp()) * static_cast<C>(inverse);
    write_row<T>(y + begin, p.size, kBlock, me, of);
  }
}

// Rows in pieces of so many, and columns in tiles of packs of `lanes` threads; `whole` where all
// packs are and lie at multiples of 16 bytes.
struct WeightPlan {
  int64_t rows, size, piece, pieces, tiles;
  int lanes;
  bool whole;
};

// What the gradient of the weights takes of a row's statistics.
template <class C>
struct alignas(4 * sizeof(C)) RowCenter {
  C mean, rstd, shift, wide;
};

// Where a thread stands: its team's rows and its columns, of which `left` lie before the last.
struct WeightThread {
  int lane, team, teams;
  int64_t column, left;
};

// Adds grad h of the team's rows, of `rows` from number `begin` on.
template <class T>
__device__ __forceinline__ void add_rows(const WeightPlan& p, const WeightThread& me,
                                         const char* grad, const char* x, const double* mean,
                                         const double* rstd, const RowCenter<Computed<T>>* centers,
                                         int64_t begin, int rows, Computed<T>* sums) {
  using C = Computed<T>;
  constexpr int kCount = Floats<T>::kCount, kFlight = 2;
  for (int r = me.team; me.left > 0 && r < rows; r += kFlight * me.teams) {
    Floats<T> gradients[kFlight], numbers[kFlight];
    MOONLET_UNROLL
    for (int f = 0; f < kFlight; ++f) {
      const bool there = r + f * me.teams < rows;
      const int64_t at = ((begin + r + f * me.teams) * p.size + me.column) * sizeof(T);
      gradients[f] = pack_at<T>(grad + at, p.whole && there, there ? me.left : 0, C(0));
      numbers[f] = pack_at<T>(x + at, p.whole && there, there ? me.left : 0, C(0));
    }
    MOONLET_UNROLL
    for (int f = 0; f < kFlight; ++f) {
      const int row = r + f * me.teams;
      if (row >= rows) continue;
      const RowCenter<C> c = centers[row];
      if (c.wide != C(0)) {
        const Center<C> exact(mean != nullptr ? mean[begin + row] : 0, rstd[begin + row], p.size);
        for (int k = 0; k < kCount; ++k)
          sums[k] += gradients[f].v[k] * exact.normal(numbers[f].v[k]);
        continue;
      }
      MOONLET_UNROLL
      for (int k = 0; k < kCount; ++k)
        sums[k] += gradients[f].v[k] * ((numbers[f].v[k] - c.mean) * c.rstd - c.shift);
    }
  }
}

// The sums over the rows of a piece of grad h for each column. The teams of a block take turns in
// reading rows, so that several are on their way; what a row's statistics say is made once a block.
template <class T>
__global__ void __launch_bounds__(kBlock, 2)
    norm_weight_rows_kernel(WeightPlan p, const char* grad, const char* x, const double* mean,
                            const double* rstd, Array y) {
  using C = Computed<T>;
  constexpr int kCount = Floats<T>::kCount;
  __shared__ SharedArray<RowCenter<C>, kBlock> centers;
  __shared__ SharedArray<C, kBlock * kCount> all;
  const int thread = static_cast<int>(threadIdx.x);
  for (int64_t job = blockIdx.x; job < p.tiles * p.pieces; job += gridDim.x) {
    const int64_t piece = job / p.tiles, tile = job - piece * p.tiles;
    const int64_t last = (piece + 1) * p.piece, end = last < p.rows ? last : p.rows;
    const int lane = thread % p.lanes;
    const int64_t column = (tile * p.lanes + lane) * kCount;
    const WeightThread me = {lane, thread / p.lanes, kBlock / p.lanes, column, p.size - column};
    C sums[kCount] = {};
    for (int64_t begin = piece * p.piece; begin < end; begin += kBlock) {
      const int rows = static_cast<int>(end - begin < kBlock ? end - begin : kBlock);
      __syncthreads();
      if (thread < rows) {
        const Center<C> c(mean != nullptr ? mean[begin + thread] : 0, rstd[begin + thread], p.size);
        centers.get()[thread] = {c.mean, c.rstd, c.shift, C(c.wide)};
      }
      __syncthreads();
      add_rows<T>(p, me, grad, x, mean, rstd, centers.get(), begin, rows, sums);
    }
    MOONLET_UNROLL
    for (int k = 0; k < kCount; ++k) all.get()[k * kBlock + thread] = sums[k];
    __syncthreads();
    for (int k = me.team; k < kCount; k += me.teams) {
      C sum = C(0);
      for (int t = 0; t < me.teams; ++t) sum += all.get()[k * kBlock + t * p.lanes + lane];
      if (k < me.left) y.set<C>(piece * p.size + column + k, sum);
    }
    __syncthreads();
  }
}

}  // namespace

Rows rows_of(const Tensor& x, int64_t dims) {
  int64_t n = 1;
  for (int i = x.dim() - static_cast<int>(dims); i < x.dim(); ++i) n *= x.size(i);
  return {n == 0 ? 0 : x.numel() / n, n};
}

void normalise_rows(const Call& call, int64_t dims, const Tensor& input, const Tensor& weight,
                    const Tensor& bias, double eps, Tensor& result, const Tensor& mean,
                    Tensor& rstd) {
  const Rows rows = rows_of(input, dims);
  if (rows.count == 0) return;
  with_contiguous(result, [&](Tensor& y) {
    const Tensor x = contiguous(input);
    const Factors factors(x, weight, bias);
    const RowWork work = row_work(rows, x, factors, Tensor(), y);
    visit_rows(x.dtype(), factors, [&]<class T, class W>() {
      const auto kernel = work.held ? normalise_rows_kernel<T, W> : normalise_long_kernel<T, W>;
      MOONLET_LAUNCH(kernel, work.blocks, kBlock, 0, call.stream(), work.plan, work.in,
                     work.inverse, eps, y.raw(), statistics(mean), statistics(rstd));
    });
    call.done();
  });
}

void row_gradients_of_x(const Call& call, int64_t dims, const RowGradients& given,
                        const Tensor& weight, Tensor& result) {
  const Rows rows = rows_of(given.x, dims);
  if (rows.count == 0) return;
  const RowGradients in = of_one_dtype(given);
  if (in.x.dtype() != result.dtype()) {
    Tensor wide = call.scratch(result.sizes(), in.x.dtype());
    row_gradients_of_x(call, dims, in,
                       weight.defined() ? converted(weight, DType::Float32) : weight, wide);
    return copy(result, wide);
  }
  with_contiguous(result, [&](Tensor& y) {
    const Factors factors(in.x, weight, Tensor());
    const RowWork work = row_work(rows, in.x, factors, in.grad, y);
    visit_rows(y.dtype(), factors, [&]<class T, class W>() {
      const auto kernel =
          work.held ? norm_gradient_rows_kernel<T, W> : norm_gradient_long_kernel<T, W>;
      MOONLET_LAUNCH(kernel, work.blocks, kBlock, 0, call.stream(), work.plan, in.grad.raw(),
                     work.in, statistics(in.mean), statistics(in.rstd), work.inverse, y.raw());
    });
    call.done();
  });
}

void row_gradients_of_weight(const Call& call, int64_t dims, const RowGradients& given, Tensor& y) {
  if (y.numel() == 0) return;
  if (given.x.numel() == 0) return fill(y, Scalar(0));
  const Rows rows = rows_of(given.x, dims);
  const RowGradients in = of_one_dtype(given);
  const int bytes = static_cast<int>(size_of(in.x.dtype()));
  WeightPlan p = {rows.count, rows.size, 0, 0, 0, lanes_for((rows.size * bytes + 15) / 16), false};
  const int64_t columns = p.lanes * (16 / bytes);
  p.tiles = (rows.size + columns - 1) / columns;
  // Enough blocks for a device, of enough rows each.
  const int64_t pieces =
      std::clamp<int64_t>(rows.count / 64, 1, std::max<int64_t>(1024 / p.tiles, 1));
  p.piece = (rows.count + pieces - 1) / pieces;
  p.pieces = (rows.count + p.piece - 1) / p.piece;
  p.whole =
      rows.size * bytes % 16 == 0 && aligned_to(in.x.raw(), 16) && aligned_to(in.grad.raw(), 16);
  Tensor parts = y;
  if (p.pieces > 1) parts = call.scratch({p.pieces, rows.size}, compute_dtype(y.dtype()));
  visit_float_types(in.x.dtype(), [&]<class T>() {
    MOONLET_LAUNCH((norm_weight_rows_kernel<T>), blocks_for(p.tiles * p.pieces * kBlock), kBlock, 0,
                   call.stream(), p, in.grad.raw(), in.x.raw(), statistics(in.mean),
                   statistics(in.rstd), array(parts));
  });
  call.done();
  if (p.pieces > 1) sum(parts, Dims{0}, false, std::nullopt, y);
}

}  // namespace moonlet::cuda
