// cuda/kernels/loss_cross_entropy.cu: the cross entropy of classes, which keeps of the softmax no
// more than the logarithms of its sums, and its gradient in one pass over the logits. Classes side
// by side are rows of teams; across memory, teams take turns along the lines of packs of entries.
#include "cuda/kernels/common/columns.cuh"
#include "cuda/kernels/common/geometry.cuh"
#include "cuda/kernels/common/online_softmax.cuh"
#include "cuda/kernels/common/reduce.cuh"
#include "cuda/kernels/common/rows.cuh"
#include "cuda/kernels/loss_classes.cuh"
#include "cuda/runtime/device.h"
#include "tensor/functors/functor_math.h"
#include "tensor/kernels_loss.h"
#include "tensor/kernels_reduce.h"

namespace moonlet::cuda {

namespace {

using namespace fn;  // NOLINT(google-build-using-namespace)

// Packs that are on their way at once.
template <class T>
constexpr int kFlightOf = sizeof(T) == 8 ? 2 : 4;

// Of some logits: the sum of e^x, and the weighted sum of x.
template <class C>
struct Sums {
  Online<C> online;
  C weighted;
  __device__ static Sums none() { return {Online<C>::none(), C(0)}; }
  __device__ C logsumexp() const { return online.largest + vlog(online.sum); }
};
struct JoinSums {
  template <class C>
  __device__ Sums<C> operator()(const Sums<C>& a, const Sums<C>& b) const {
    return {JoinOnline()(a.online, b.online), a.weighted + b.weighted};
  }
};

// The weights of the classes, or null for 1 each; whether the weighted sum of the logits is wanted.
struct Weights {
  const char* data;
  bool spreads;
};

// The logarithm of the sum of each row and, for label smoothing, its weighted sum.
template <class T>
__global__ void __launch_bounds__(kBlock, 2)
    entropy_rows_kernel(RowPlan p, const char* x, Weights weights, Computed<T>* logsumexp,
                        Computed<T>* weighted) {
  using C = Computed<T>;
  constexpr int kCount = Floats<T>::kCount, kFlight = kFlightOf<T>;
  for (MOONLET_EACH_ROW(p, row, me)) {
    const char* from = x + row * p.size * sizeof(T);
    const int64_t size = row < p.rows ? p.size : 0, step = int64_t{kCount} << p.team_log;
    Sums<C> all = Sums<C>::none();
    for (int64_t i = int64_t{me} * kCount; i < size; i += kFlight * step) {
      Floats<T> packs[kFlight];
      MOONLET_UNROLL
      for (int f = 0; f < kFlight; ++f) {
        const int64_t at = i + f * step, left = at < size ? size - at : 0;
        packs[f] = pack_at<T>(from + at * sizeof(T), p.whole && left > 0, left, C(-HUGE_VAL));
      }
      take_online<T>(all.online, [&](const auto& take) {
        MOONLET_UNROLL
        for (int f = 0; f < kFlight; ++f) {
          MOONLET_UNROLL
          for (int k = 0; k < kCount; ++k) take(packs[f].v[k]);
        }
      });
      if (!weights.spreads) continue;
      for (int f = 0; f < kFlight; ++f) {
        const int64_t at = i + f * step, left = size - at;
        Floats<T> factors;
        if (weights.data != nullptr)
          factors = floats_at<T>(weights.data + at * sizeof(T), left, C(0));
        MOONLET_UNROLL
        for (int k = 0; k < kCount; ++k)
          if (k < left) all.weighted += (weights.data ? factors.v[k] : C(1)) * packs[f].v[k];
      }
    }
    all = combine_alike(all, p.team, JoinSums());
    if (me != 0 || row >= p.rows) continue;
    logsumexp[row] = all.logsumexp();
    if (weights.spreads) weighted[row] = all.weighted;
  }
}

template <class T>
__device__ __forceinline__ Computed<T> weight_at(const char* weights, int64_t i) {
  if (weights == nullptr) return Computed<T>(1);
  return floats_at<T>(weights + i * sizeof(T), 1, Computed<T>(0)).v[0];
}

template <class T>
__global__ void __launch_bounds__(kBlock, 2)
    entropy_columns_kernel(Columns c, const char* x, Weights weights, Computed<T>* logsumexp,
                           Computed<T>* weighted) {
  using C = Computed<T>;
  constexpr int kCount = Floats<T>::kCount, kFlight = kFlightOf<T>;
  __shared__ SharedArray<Sums<C>, kBlock> memory;
  for (int64_t job = blockIdx.x; job < c.outer * c.tiles; job += gridDim.x) {
    const ColumnPosition position = column_position<kCount>(c, job);
    const int64_t step = c.inner * position.teams * sizeof(T);
    const char* from = x + (position.base + position.team * c.inner) * sizeof(T);
    Sums<C> all[kCount];
    MOONLET_UNROLL
    for (int k = 0; k < kCount; ++k) all[k] = Sums<C>::none();
    for (int64_t i = position.team; position.valid > 0 && i < c.size;
         i += kFlight * position.teams) {
      Floats<T> packs[kFlight];
      MOONLET_UNROLL
      for (int f = 0; f < kFlight; ++f) {
        const bool there = i + int64_t{f} * position.teams < c.size;
        packs[f] = pack_at<T>(from, c.whole && there, there ? position.valid : 0, C(-HUGE_VAL));
        from += step;
      }
      MOONLET_UNROLL
      for (int k = 0; k < kCount; ++k)
        take_online<T>(all[k].online, [&](const auto& take) {
          MOONLET_UNROLL
          for (int f = 0; f < kFlight; ++f) take(packs[f].v[k]);
        });
      for (int f = 0; weights.spreads && f < kFlight; ++f) {
        const int64_t at = i + int64_t{f} * position.teams;
        if (at >= c.size) break;
        const C factor = weight_at<T>(weights.data, at);
        MOONLET_UNROLL
        for (int k = 0; k < kCount; ++k) all[k].weighted += factor * packs[f].v[k];
      }
    }
    combine_teams<Sums<C>, kCount>(all, memory.get(), c, position, JoinSums());
    MOONLET_UNROLL
    for (int k = 0; k < kCount; ++k) {
      if (position.team != 0 || k >= position.valid) continue;
      logsumexp[position.column + k] = all[k].logsumexp();
      if (weights.spreads) weighted[position.column + k] = all[k].weighted;
    }
  }
}

// What is the same for all entries of a loss: the part of label smoothing, and the sum of the
// weights, which is the number of classes where there are none.
template <class C, class I>
struct Terms {
  Classes<I> classes;
  const int64_t* target;
  const C *logsumexp, *weight_sum;
  double smoothing;
  int reduction;
  __device__ __forceinline__ C share() const {
    return static_cast<C>(smoothing / static_cast<double>(classes.classes));
  }
  __device__ __forceinline__ C every() const {
    return weight_sum != nullptr ? *weight_sum : static_cast<C>(classes.classes);
  }
};

// Sums of losses and of weights, both in double.
template <class C, class I, class Source>
struct EntropyLoss {
  struct Acc {
    double loss, weight;
  };
  Terms<C, I> terms;
  Source x, weight, y;
  const C* weighted;
  C* total_weight;
  bool has_weight;
  __device__ Acc start() const { return {0, 0}; }
  __device__ Acc load(int64_t, int64_t, int64_t i) const {
    const int64_t t = terms.classes.wanted(terms.target[i]);
    if (t == 0) {
      if (terms.reduction == 0) y.template set<C>(i, C(0));
      return {0, 0};
    }
    const C factor = has_weight ? weight.template get<C>(t - 1) : C(1), sum = terms.logsumexp[i];
    C loss = factor * (sum - x.template get<C>(terms.classes.position(i, t)));
    if (terms.smoothing > 0)
      loss = loss * static_cast<C>(1 - terms.smoothing) +
             terms.share() * (sum * terms.every() - weighted[i]);
    if (terms.reduction == 0) y.template set<C>(i, loss);
    return {static_cast<double>(loss), static_cast<double>(factor)};
  }
  __device__ Acc combine(Acc a, Acc b) const { return {a.loss + b.loss, a.weight + b.weight}; }
  __device__ void finish(Acc total, int64_t) const {
    if (terms.reduction != 0)
      y.template set<C>(
          0, static_cast<C>(terms.reduction == 1 ? total.loss / total.weight : total.loss));
    *total_weight = static_cast<C>(total.weight);
  }
};

// What the gradient of an entry's logits is made of: scale e^(x - sum) - every weight, less `hit`
// at its class.
template <class C>
struct EntryGradient {
  int64_t target;  // 0-based, -1 where it is ignored
  C sum, scale, every, hit;
};

template <class T>
struct GradientSource {
  using C = Computed<T>;
  Terms<C, int64_t> terms;
  const C *grad, *total_weight;
  const char* weight;
  __device__ __forceinline__ EntryGradient<C> of(int64_t i) const {
    const int64_t t = terms.classes.wanted(terms.target[i]);
    if (t == 0) return {-1, terms.logsumexp[i], C(0), C(0), C(0)};
    C g = grad[terms.reduction == 0 ? i : 0];
    if (terms.reduction == 1) g /= *total_weight;
    const C factor = weight_at<T>(weight, t - 1) * static_cast<C>(1 - terms.smoothing);
    const C share = terms.share();
    return {t - 1, terms.logsumexp[i], g * (factor + share * terms.every()), g * share, g * factor};
  }
};

// The gradients of a row's pack from class i on.
template <class T>
struct EntropyGradientOf {
  using C = Computed<T>;
  const char *row, *weight;
  const EntryGradient<C>& entry;
  __device__ __forceinline__ Floats<T> of(Floats<T> v, int64_t i, int64_t n) const {
    Floats<T> factors;
    if (weight != nullptr && entry.every != C(0))
      factors = floats_at<T>(weight + i * sizeof(T), n, C(0));
    else
      for (int k = 0; k < v.kCount; ++k) factors.v[k] = C(1);
    MOONLET_UNROLL
    for (int k = 0; k < v.kCount; ++k) {
      v.v[k] = exp_for<T>(v.v[k] - entry.sum) * entry.scale - entry.every * factors.v[k];
      if (i + k == entry.target) v.v[k] -= entry.hit;
    }
    return v;
  }
  __device__ __forceinline__ Floats<T> operator()(int64_t i, int64_t n) const {
    return of(floats_at<T>(row + i * sizeof(T), n, C(0)), i, n);
  }
};

template <class T>
__global__ void __launch_bounds__(kBlock, 2)
    entropy_gradient_rows_kernel(RowPlan p, const GradientSource<T> source, const char* x,
                                 char* y) {
  constexpr int kCount = Floats<T>::kCount, kFlight = kFlightOf<T>;
  for (MOONLET_EACH_ROW(p, row, me)) {
    if (row >= p.rows) continue;
    const char* from = x + row * p.size * sizeof(T);
    char* to = y + row * p.size * sizeof(T);
    const EntryGradient<Computed<T>> entry = source.of(row);
    const EntropyGradientOf<T> gradient = {from, source.weight, entry};
    if (!p.whole) {
      write_row<T>(to, p.size, p.team, me, gradient);
      continue;
    }
    const int64_t step = int64_t{kCount} << p.team_log;
    for (int64_t i = int64_t{me} * kCount; i < p.size; i += kFlight * step) {
      Words<16> words[kFlight];
      MOONLET_UNROLL
      for (int f = 0; f < kFlight; ++f)
        if (i + f * step < p.size) words[f] = load_words<16>(from + (i + f * step) * sizeof(T));
      MOONLET_UNROLL
      for (int f = 0; f < kFlight; ++f)
        if (i + f * step < p.size)
          store_words(to + (i + f * step) * sizeof(T),
                      packed<T>(gradient.of(unpacked<T>(words[f]), i + f * step, kCount)));
    }
  }
}

template <class T>
__global__ void __launch_bounds__(kBlock, 2)
    entropy_gradient_columns_kernel(Columns c, const GradientSource<T> source, const char* x,
                                    char* y) {
  using C = Computed<T>;
  constexpr int kCount = Floats<T>::kCount;
  for (int64_t job = blockIdx.x; job < c.outer * c.tiles; job += gridDim.x) {
    const ColumnPosition position = column_position<kCount>(c, job);
    if (position.valid == 0) continue;
    EntryGradient<C> entries[kCount] = {};
    MOONLET_UNROLL
    for (int k = 0; k < kCount; ++k)
      if (k < position.valid) entries[k] = source.of(position.column + k);
    const int64_t step = c.inner * position.teams * sizeof(T);
    int64_t at = (position.base + position.team * c.inner) * sizeof(T);
    for (int64_t i = position.team; i < c.size; i += position.teams, at += step) {
      Floats<T> pack = pack_at<T>(x + at, c.whole, position.valid, C(0));
      const C weight = weight_at<T>(source.weight, i);
      MOONLET_UNROLL
      for (int k = 0; k < kCount; ++k) {
        const EntryGradient<C>& e = entries[k];
        pack.v[k] = exp_for<T>(pack.v[k] - e.sum) * e.scale - e.every * weight;
        if (i == e.target) pack.v[k] -= e.hit;
      }
      store_columns<T>(y + at, c.whole, position.valid, pack);
    }
  }
}

DimSplit split_classes(const Tensor& x) { return split_at(x.sizes(), x.dim() == 1 ? 0 : 1); }

// How the lines of logits across memory are shared out.
Columns plan_columns(const DimSplit& s, const Tensor& x, const Tensor& y) {
  const int bytes = static_cast<int>(size_of(x.dtype()));
  Columns c = columns_of(s, 16 / bytes);
  c.whole = s.inner * bytes % 16 == 0 && aligned_to(x.raw(), 16) && aligned_to(y.raw(), 16);
  return c;
}
RowPlan plan_rows(const DimSplit& s, const Tensor& x, const Tensor& y) {
  const int bytes = static_cast<int>(size_of(x.dtype()));
  const bool held = can_hold(s.outer, s.size, bytes);
  return plan_teams(s.outer, s.size, held ? holding_team(s.size, bytes) : kBlock, bytes, {&x, &y});
}

// The sum of the weights where label smoothing asks for it, else undefined.
Tensor weight_sum(const Call& call, const Tensor& weight, double smoothing, DType compute) {
  if (!weight.defined() || smoothing == 0) return {};
  Tensor out = call.scratch({}, compute);
  sum(converted(weight, compute), Dims{0}, false, std::nullopt, out);
  return out;
}

template <class C, class I>
Terms<C, I> terms_of(const Classes<I>& classes, const Tensor& targets, const Tensor& sums,
                     const Tensor& every, double smoothing, int64_t reduction) {
  return {classes,
          targets.elements<int64_t>(),
          sums.elements<C>(),
          every.defined() ? every.elements<C>() : nullptr,
          smoothing,
          static_cast<int>(reduction)};
}

void find_sums(const Call& call, const Tensor& x, const Weights& weights, Tensor& sums,
               const Tensor& weighted) {
  const DimSplit s = split_classes(x);
  visit_float_types(x.dtype(), [&]<class T>() {
    using C = Computed<T>;
    C* const spread = weighted.defined() ? weighted.elements<C>() : nullptr;
    if (s.inner == 1) {
      const RowPlan p = plan_rows(s, x, x);
      MOONLET_LAUNCH(entropy_rows_kernel<T>, blocks_for(s.outer * p.team), kBlock, 0, call.stream(),
                     p, x.raw(), weights, sums.elements<C>(), spread);
    } else {
      const Columns c = plan_columns(s, x, x);
      MOONLET_LAUNCH(entropy_columns_kernel<T>, blocks_for(c.outer * c.tiles * kBlock), kBlock, 0,
                     call.stream(), c, x.raw(), weights, sums.elements<C>(), spread);
    }
  });
  call.done();
}

}  // namespace

void native_cross_entropy(const Tensor& x, const Tensor& target, const Tensor& weight,
                          int64_t reduction, int64_t ignore_index, double label_smoothing,
                          Tensor& y, Tensor& logsumexp, Tensor& total_weight) {
  const Call call(x, "cross_entropy");
  const DType compute = compute_dtype(x.dtype());
  const Tensor source = contiguous(x), targets = converted(target, DType::Int64);
  const Tensor factors = weight.defined() ? contiguous(weight) : source;
  const Tensor every = weight_sum(call, weight, label_smoothing, compute);
  const int64_t count = target.numel();
  with_contiguous(logsumexp, [&](Tensor& sums) {
    Tensor weighted;
    if (label_smoothing > 0) weighted = call.scratch(targets.sizes(), compute);
    const Weights weights = {weight.defined() ? factors.raw() : nullptr, label_smoothing > 0};
    if (x.numel() > 0) find_sums(call, source, weights, sums, weighted);
    const ReduceGrid grid = reduce_grid(targets, all_dims(targets.dim()));
    visit_losses(x.dtype(), count, [&]<class C, class I, class Source>() {
      const auto at = elements_of<Source>;
      const auto classes = classes_of<I>(call, x.sizes(), count, ignore_index);
      reduce_by(
          call, grid,
          EntropyLoss<C, I, Source>{
              terms_of<C, I>(classes, targets, sums, every, label_smoothing, reduction), at(source),
              at(factors), at(y), weighted.defined() ? weighted.elements<C>() : nullptr,
              total_weight.elements<C>(), weight.defined()});
    });
  });
}

void cross_entropy_grad_x(const Tensor& grad, const Tensor& x, const Tensor& target,
                          const Tensor& weight, const Tensor& logsumexp, const Tensor& total_weight,
                          int64_t reduction, int64_t ignore_index, double label_smoothing,
                          Tensor& result) {
  const Call call(x, "cross_entropy_grad_x");
  if (x.numel() == 0) return;
  const DType compute = compute_dtype(x.dtype());
  const Tensor source = contiguous(x), targets = converted(target, DType::Int64),
               gradients = converted(grad, compute), sums = converted(logsumexp, compute),
               total = converted(total_weight, compute);
  const Tensor factors = weight.defined() ? contiguous(weight) : weight;
  const Tensor every = weight_sum(call, weight, label_smoothing, compute);
  const DimSplit s = split_classes(x);
  with_contiguous(result, [&](Tensor& y) {
    visit_float_types(x.dtype(), [&]<class T>() {
      using C = Computed<T>;
      const auto classes = classes_of<int64_t>(call, x.sizes(), target.numel(), ignore_index);
      const GradientSource<T> from = {
          terms_of<C, int64_t>(classes, targets, sums, every, label_smoothing, reduction),
          gradients.elements<C>(), total.elements<C>(),
          factors.defined() ? factors.raw() : nullptr};
      if (s.inner == 1) {
        const RowPlan p = plan_rows(s, source, y);
        MOONLET_LAUNCH(entropy_gradient_rows_kernel<T>, blocks_for(s.outer * p.team), kBlock, 0,
                       call.stream(), p, from, source.raw(), y.raw());
      } else {
        const Columns c = plan_columns(s, source, y);
        MOONLET_LAUNCH(entropy_gradient_columns_kernel<T>, blocks_for(c.outer * c.tiles * kBlock),
                       kBlock, 0, call.stream(), c, from, source.raw(), y.raw());
      }
    });
    call.done();
  });
}

}  // namespace moonlet::cuda
