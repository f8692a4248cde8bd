// cuda/kernels/normalization/layer_norm_grads.cu: all gradients of layer_norm and rms_norm in one
// pass over the rows. Teams of threads go over many rows each and add up what these bring to the
// gradients of weight and bias in registers; a sum over the blocks ends it.
#include <algorithm>

#include "cuda/kernels/normalization/layer_norm.cuh"
#include "tensor/core/views.h"
#include "tensor/kernels_create.h"
#include "tensor/kernels_reduce.h"

namespace moonlet::cuda {

namespace {

// What a team has loaded of a row: its packs of grad and x as they lie, and its statistics.
template <class T, int kPacks>
struct LoadedRow {
  HeldWords<kPacks> grad, x;
  double mean = 0, rstd = 1;
  int count = 0;

  __device__ __forceinline__ void load(const RowPlan& p, const char* grads, const RowInputs& in,
                                       const double* means, const double* rstds, int64_t row,
                                       int me) {
    count = 0;
    if (row >= p.rows) return;
    count = HeldRow<T, kPacks>::held(p.size, p.team_log, me);
    const int64_t begin = row * p.size * static_cast<int64_t>(sizeof(T));
    x.template load<T>(in.x + begin, p, me, count);
    grad.template load<T>(grads + begin, p, me, count);
    mean = means != nullptr ? means[row] : 0;
    rstd = rstds[row];
  }
};

// The sums over a team's rows, for the columns of its packs.
template <class T, int kPacks>
struct ColumnSums {
  using C = Computed<T>;
  static constexpr int kCount = Floats<T>::kCount;
  C of_weight[kPacks][kCount] = {}, of_bias[kPacks][kCount] = {};

  __device__ __forceinline__ void add(int h, const Floats<T>& grad, const Floats<T>& normals) {
    MOONLET_UNROLL
    for (int k = 0; k < kCount; ++k) {
      of_weight[h][k] += grad.v[k] * normals.v[k];
      of_bias[h][k] += grad.v[k];
    }
  }
};

// Adds up the `sums` of the block's teams, in order, into `parts`, a number for each column. `room`
// takes kBlock * kCount numbers of shared memory.
template <class C, int kPacks, int kCount>
__device__ __forceinline__ void combine_teams(const RowPlan& p, int me,
                                              const C (&sums)[kPacks][kCount], C* room, C* parts) {
  const int thread = static_cast<int>(threadIdx.x), team = thread >> p.team_log;
  const int teams = kBlock >> p.team_log;
  MOONLET_UNROLL
  for (int h = 0; h < kPacks; ++h) {
    __syncthreads();
    MOONLET_UNROLL
    for (int k = 0; k < kCount; ++k) room[k * kBlock + thread] = sums[h][k];
    __syncthreads();
    const int64_t column = ((int64_t{h} << p.team_log) + me) * kCount;
    for (int k = team; k < kCount; k += teams) {
      C sum = C(0);
      for (int t = 0; t < teams; ++t) sum += room[k * kBlock + (t << p.team_log) + me];
      if (column + k < p.size) parts[column + k] = sum;
    }
  }
}

// Leaves the normalised elements of a pack from element i on at `mine` and every kBlock further:
// those of rows beyond the range of C, in few instructions.
template <class T>
MOONLET_OUTLINE void normal_in_double(const char* row, double mean, double rstd, int64_t i,
                                      int64_t size, Computed<T>* mine) {
  constexpr int kCount = Floats<T>::kCount;
  const Center<Computed<T>> center(mean, rstd, size);
  for (int k = 0; k < kCount; ++k) {
    const bool there = i + k < size;
    const Floats<T> v = floats_at<T>(row + (there ? i + k : 0) * sizeof(T), 1, Computed<T>(0));
    mine[k * kBlock] = there ? center.normal(v.v[0]) : Computed<T>(0);
  }
}

// Two blocks fit a multiprocessor where sums and packs leave them the registers.
template <class T>
constexpr int resident(int packs) {
  return packs * (sizeof(T) == 2 ? 8 : 4) < 16 ? 2 : 1;
}

// A team's row while it is computed: its packs normalised, and its gradients times the weights.
template <class T, class W, int kPacks>
struct RowAtHand {
  using C = Computed<T>;
  static constexpr int kCount = Floats<T>::kCount;
  const RowPlan& p;
  const LoadedRow<T, kPacks>& held;
  const Center<C> center;
  const char *row, *weight;
  int me;
  C* room;  // for one pack, an element every kBlock

  __device__ __forceinline__ int64_t first_of(int h) const {
    return ((int64_t{h} << p.team_log) + me) * kCount;
  }
  __device__ __forceinline__ Floats<T> normals(int h) const {
    Floats<T> v = unpacked<T>(held.x.packs[h]);
    if (center.wide) {
      normal_in_double<T>(row, held.mean, held.rstd, first_of(h), p.size, room);
      MOONLET_UNROLL
      for (int k = 0; k < kCount; ++k) v.v[k] = room[k * kBlock];
      return v;
    }
    MOONLET_UNROLL
    for (int k = 0; k < kCount; ++k) v.v[k] = center.usual(v.v[k]);
    // Beyond the row's end, where a 0 may lie far from the mean.
    MOONLET_UNROLL
    for (int k = 0; k < kCount; ++k)
      if (!p.whole && first_of(h) + k >= p.size) v.v[k] = C(0);
    return v;
  }
  __device__ __forceinline__ Floats<T> gradients(int h) const {
    return unpacked<T>(held.grad.packs[h]);
  }
  __device__ __forceinline__ Floats<T> scaled(int h, Floats<T> v) const {
    if (weight != nullptr) NormalOf<T, W>::scale(v, held_weights<T, W>(weight, p, p.whole, me, h));
    return v;
  }
};

// `parts` takes a row for each block of what the gradient of the weight is the sum of, and then a
// row for each of the bias's. While a row is computed, the team's next is on its way.
template <class T, class W, int kPacks>
__global__ void __launch_bounds__(kBlock, resident<T>(kPacks))
    norm_all_gradients_kernel(RowPlan p, const char* grad, RowInputs in, const double* mean,
                              const double* rstd, double inverse, char* y, Computed<T>* parts) {
  using C = Computed<T>;
  constexpr int kCount = Floats<T>::kCount;
  __shared__ SharedArray<C, kBlock * kCount> room;
  const bool centred = mean != nullptr;
  const int64_t teams = kBlock >> p.team_log, step = static_cast<int64_t>(gridDim.x) * teams;
  const int me = static_cast<int>(threadIdx.x) & ((1 << p.team_log) - 1);
  ColumnSums<T, kPacks> sums;
  LoadedRow<T, kPacks> next;
  // The turn before the first one only loads.
  for (int64_t turn = blockIdx.x * teams - step; turn < p.rows; turn += step) {
    const int64_t row = turn + (threadIdx.x >> p.team_log);
    const LoadedRow<T, kPacks> held = next;
    next.load(p, grad, in, mean, rstd, row + step, me);
    if (turn < 0) continue;
    const int64_t begin = row * p.size * static_cast<int64_t>(sizeof(T));
    const Center<C> center(held.mean, held.rstd, p.size);
    const RowAtHand<T, W, kPacks> at = {
        p, held, center, in.x + begin, in.weight, me, room.get() + threadIdx.x};
    C first = C(0), second = C(0);
    each_pack<kPacks>(held.count, [&](int h) {
      const Floats<T> g = at.gradients(h), v = at.normals(h);
      sums.add(h, g, v);
      add_terms<T>(at.scaled(h, g), v, first, second);
    });
    first = centred ? combine_alike(first, p.team, AddUp()) * static_cast<C>(inverse) : C(0);
    second = combine_alike(second, p.team, AddUp()) * static_cast<C>(inverse);
    if (row >= p.rows) continue;
    if (!p.whole || center.wide) {
      const RowGradientOf<T, W> of = {grad + begin, in.x + begin, in.weight, center, first, second};
      write_row<T>(y + begin, p.size, p.team, me, of);
      continue;
    }
    each_pack<kPacks>(held.count, [&](int h) {
      Floats<T> e = at.scaled(h, at.gradients(h));
      const Floats<T> v = at.normals(h);
      MOONLET_UNROLL
      for (int k = 0; k < kCount; ++k) e.v[k] = (e.v[k] - first - v.v[k] * second) * center.rstd;
      store_words<16>(y + begin + at.first_of(h) * sizeof(T), packed<T>(e));
    });
  }
  C* const of_weight = parts + blockIdx.x * p.size;
  combine_teams(p, me, sums.of_weight, room.get(), of_weight);
  combine_teams(p, me, sums.of_bias, room.get(), of_weight + gridDim.x * p.size);
}

// Blocks enough for a device whose teams get 16 rows or more each, so that the parts are few beside
// the rows.
int64_t block_count(const RowPlan& p) {
  const int64_t rows = int64_t{16} * (kBlock >> p.team_log);
  return std::clamp<int64_t>(p.rows / rows, 1, 512);
}

// Calls f.template operator()<kPacks>() with as many packs as a thread of the plan's teams holds.
template <class F>
void visit_packs(const RowPlan& p, int64_t bytes, const F& f) {
  const int64_t packs = (p.size * bytes + 15) / 16;
  if (packs <= p.team) return f.template operator()<1>();
  if (packs <= int64_t{2} * p.team) return f.template operator()<2>();
  f.template operator()<kHeld>();
}

// Each gradient by itself.
void each_gradient(const Call& call, int64_t dims, const RowGradients& in, const Tensor& weight,
                   Tensor& grad_x, Tensor& grad_weight, Tensor& grad_bias) {
  row_gradients_of_x(call, dims, in, weight, grad_x);
  row_gradients_of_weight(call, dims, in, grad_weight);
  if (!grad_bias.defined()) return;
  Dims before;
  for (int i = 0; i < in.grad.dim() - static_cast<int>(dims); ++i) before.push_back(i);
  if (before.empty()) return copy(grad_bias, in.grad);
  sum(in.grad, before, false, std::nullopt, grad_bias);
}

}  // namespace

void row_gradients(const Call& call, int64_t dims, const RowGradients& in, const Tensor& weight,
                   Tensor& grad_x, Tensor& grad_weight, Tensor& grad_bias) {
  const Rows rows = rows_of(in.x, dims);
  const auto bytes = static_cast<int>(size_of(in.x.dtype()));
  if (in.grad.dtype() != in.x.dtype() || !can_hold(rows.count, rows.size, bytes))
    return each_gradient(call, dims, in, weight, grad_x, grad_weight, grad_bias);
  const Factors factors(in.x, weight, Tensor());
  with_contiguous(grad_x, [&](Tensor& y) {
    const RowWork work = row_work(rows, in.x, factors, in.grad, y);
    const int64_t blocks = block_count(work.plan);
    const Tensor parts = call.scratch({2, blocks, rows.size}, compute_dtype(in.x.dtype()));
    visit_rows(in.x.dtype(), factors, [&]<class T, class W>() {
      visit_packs(work.plan, sizeof(T), [&]<int kPacks>() {
        MOONLET_LAUNCH((norm_all_gradients_kernel<T, W, kPacks>), static_cast<unsigned>(blocks),
                       kBlock, 0, call.stream(), work.plan, in.grad.raw(), work.in,
                       statistics(in.mean), statistics(in.rstd), work.inverse, y.raw(),
                       parts.elements<Computed<T>>());
      });
    });
    call.done();
    for (int i = 0; i < 2; ++i) {
      Tensor& to = i == 0 ? grad_weight : grad_bias;
      if (!to.defined()) continue;
      with_contiguous(to, [&](Tensor& whole) {
        Tensor row = views::view(whole, {rows.size});
        sum(views::select(parts, 0, i), Dims{0}, false, std::nullopt, row);
      });
    }
  });
}

}  // namespace moonlet::cuda
