// tensor/cpu/reduce/reduce.cpp: the kernels of sums, averages, products, extremes, counts and
// norms.
#include <atomic>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "tensor/core/views.h"
#include "tensor/cpu/common/contiguous.h"
#include "tensor/cpu/common/parallel.h"
#include "tensor/cpu/reduce/reduce_loops.h"
#include "tensor/cpu/reduce/run_fold.h"
#include "tensor/kernels_reduce.h"

namespace moonlet::cpu {

namespace {

// Integers wrap as unsigned ones do.
template <class A>
struct SumOf {
  using Next = SumOf;
  A start() const { return A(0); }
  A load(A v) const { return v; }
  A join(A a, A b) const {
    if constexpr (std::is_same_v<A, int64_t>) {
      return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
    } else {
      return a + b;
    }
  }
};
template <class A>
struct ProductOf {
  using Next = ProductOf;
  A start() const { return A(1); }
  A load(A v) const { return v; }
  A join(A a, A b) const {
    if constexpr (std::is_same_v<A, int64_t>) {
      return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
    } else {
      return a * b;
    }
  }
};
struct CountOf {
  using Next = SumOf<int64_t>;
  int64_t start() const { return 0; }
  int64_t load(bool v) const { return v; }
  int64_t join(int64_t a, int64_t b) const { return a + b; }
};
template <bool All>
struct TruthOf {
  using Next = TruthOf;
  bool start() const { return All; }
  bool load(bool v) const { return v; }
  bool join(bool a, bool b) const { return All ? a & b : a | b; }
};
template <class A>
struct PowerOf {
  using Next = SumOf<A>;
  A p = 0;
  A start() const { return 0; }
  A load(A v) const { return std::pow(std::abs(v), p); }
  A join(A a, A b) const { return a + b; }
};

// The largest or the smallest of small integers as they lie in memory.
template <class T>
struct SmallExtreme {
  using In = T;
  using Acc = T;
  bool largest;
  SmallExtreme next() const { return *this; }
  T start() const {
    return largest ? std::numeric_limits<T>::lowest() : std::numeric_limits<T>::max();
  }
  T join(T a, T b) const { return (largest ? a < b : b < a) ? b : a; }
  T run(const T* x, int64_t n) const {
    if (n < thresholds::reduce::kFewElements) {
      T out = start();
      for (int64_t i = 0; i < n; ++i) out = join(out, x[i]);
      return out;
    }
    const Extremes<int64_t> ends = extremes(x, n);
    return static_cast<T>(largest ? ends.largest : ends.least);
  }
  void rows(T* acc, const T* x, int64_t rows, int64_t stride, int64_t cols) const {
    for (int64_t i = 0; i < rows; ++i, x += stride) {
      if (largest)
        for (int64_t j = 0; j < cols; ++j) acc[j] = std::max(acc[j], x[j]);
      else
        for (int64_t j = 0; j < cols; ++j) acc[j] = std::min(acc[j], x[j]);
    }
  }
};
constexpr DTypeSet kSmallIntegers =
    bit(DType::Int8) | bit(DType::UInt8) | bit(DType::Int16) | bit(DType::Int32);

template <class F>
void run_loops(F f, const Tensor& x, const Dims& dims, Tensor& y, const Finish& finish = {}) {
  reduce_dims(Loops<F>(f, x.dtype()), x, dims, y, finish);
}

// Calls run(reducer, finish) for a fold in C, into which other dtypes than 16-bit floats are
// converted.
template <class C, class Run>
void with_fold(Fold kind, DType from, const Finish& finish, Run&& run) {
  if constexpr (std::is_same_v<C, float>) {
    if (from == DType::BFloat16) return run(Loops<Fast<bfloat16>>({kind}, from), finish);
    if (from == DType::Float16) return run(Loops<Fast<half>>({kind}, from), finish);
  }
  run(Loops<Fast<C>>({kind}, from), finish);
}
template <class C>
void run_fold(Fold kind, const Tensor& x, const Dims& dims, Tensor& y, const Finish& finish = {}) {
  with_fold<C>(kind, x.dtype(), finish,
               [&](const Reducer& r, const Finish& f) { reduce_dims(r, x, dims, y, f); });
}

template <class Op, class T, class A = T>
void run_plain(const Tensor& x, const Dims& dims, Tensor& y) {
  run_loops(Plain<T, A, Op>{}, x, dims, y);
}

// A Finish that applies f to every accumulator of type A.
template <class A, class F>
Finish each(F f) {
  return [f](void* acc, int64_t n) {
    A* a = static_cast<A*>(acc);
    parallel_for(n, kGrain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) a[i] = f(a[i]);
    });
  };
}
template <class A>
Finish divided_by(std::optional<int64_t> count) {
  if (!count) return {};
  using Real = decltype(std::real(A()));
  return each<A>([by = static_cast<Real>(*count)](A v) { return v / by; });
}

// Calls run(reducer, finish) for the sum, divided by `count` if there is one.
template <class Run>
void with_sum(DType from, DType to, std::optional<int64_t> count, Run&& run) {
  if (to == DType::Bool) return run(Loops<Plain<bool, bool, TruthOf<false>>>({}, from), Finish());
  visit_compute(to, [&]<class C>() {
    if constexpr (std::is_integral_v<C>)
      with_fold<C>(Fold::Sum, from, {}, run);
    else if constexpr (is_complex_v<C>)
      run(Loops<Plain<C, C, SumOf<C>>>({}, from), divided_by<C>(count));
    else
      with_fold<C>(Fold::Sum, from, divided_by<C>(count), run);
  });
}
void sum_of(const Tensor& x, const Dims& dims, Tensor& y, std::optional<int64_t> count) {
  with_sum(x.dtype(), y.dtype(), count,
           [&](const Reducer& r, const Finish& f) { reduce_dims(r, x, dims, y, f); });
}

void product_of(const Tensor& x, const Dims& dims, Tensor& y) {
  if (y.dtype() == DType::Bool) return run_plain<TruthOf<true>, bool>(x, dims, y);
  visit_compute(y.dtype(), [&]<class C>() {
    if constexpr (std::is_floating_point_v<C>)
      run_fold<C>(Fold::Product, x, dims, y);
    else
      run_plain<ProductOf<C>, C>(x, dims, y);
  });
}

template <class Run>
void with_extreme(DType from, bool largest, Run&& run) {
  if (contains(kSmallIntegers, from))
    return visit<kSmallIntegers>(
        from, [&]<class T>() { run(Loops<SmallExtreme<T>>({largest}, from), Finish()); });
  const Fold kind = largest ? Fold::Max : Fold::Min;
  visit_compute<dtypes::boolean | dtypes::real>(
      from, [&]<class C>() { with_fold<C>(kind, from, {}, run); });
}
void extreme(const Tensor& x, const Dims& dims, Tensor& y, bool largest) {
  if (x.numel() == 0) return;
  with_extreme(x.dtype(), largest,
               [&](const Reducer& r, const Finish& f) { reduce_dims(r, x, dims, y, f); });
}

// Both extremes of each row of x, as many rows as there are results, in one pass.
template <class In>
void row_extremes(const In* x, int64_t n, Tensor& least, Tensor& largest) {
  using T = compute_t<In>;
  const int64_t runs = (n + kRunLength - 1) / kRunLength, rows = least.numel();
  std::vector<Extremes<T>> parts(static_cast<size_t>(rows * runs));
  parallel_for(rows * runs, grain_for(std::min(n, kRunLength) / 2 + 1),
               [&](int64_t begin, int64_t end) {
                 for (int64_t i = begin; i < end; ++i) {
                   const int64_t at = i % runs * kRunLength;
                   parts[static_cast<size_t>(i)] =
                       extremes(x + i / runs * n + at, std::min(kRunLength, n - at));
                 }
               });
  In *low = least.elements<In>(), *high = largest.elements<In>();
  for (int64_t row = 0; row < rows; ++row) {
    Extremes<T> all = parts[static_cast<size_t>(row * runs)];
    for (int64_t i = 1; i < runs; ++i) {
      const Extremes<T> some = parts[static_cast<size_t>(row * runs + i)];
      all.least = Fast<T>{Fold::Min}.join(all.least, some.least);
      all.largest = Fast<T>{Fold::Max}.join(all.largest, some.largest);
    }
    low[row] = In(all.least);
    high[row] = In(all.largest);
  }
}

// |x| computed and stored as T, for real and complex x.
template <class T>
Tensor magnitudes(const Tensor& x) {
  using C = std::complex<T>;
  Tensor out = empty_plain(x.sizes(), Options{dtype_of<T>, x.device()});
  T* m = out.elements<T>();
  if (!is_complex(x.dtype())) {
    copy_into(out, x);
    parallel_for(out.numel(), kGrain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) m[i] = std::abs(m[i]);
    });
    return out;
  }
  const Tensor whole = converted(x, dtype_of<C>);
  const C* from = whole.elements<C>();
  parallel_for(out.numel(), kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) m[i] = std::abs(from[i]);
  });
  return out;
}

// What sums of powers left the range of their type, as the results show.
struct Lost {
  std::atomic<bool> some = false;  // too large, or so small that parts of it may be lost
  std::atomic<bool> all = false;   // 0, which may also be the sum of zeros
};

// A Finish that takes the root of each sum of n powers.
template <class T, class F>
Finish root_of_sums(Lost& lost, int64_t n, F root) {
  const T least =
      std::numeric_limits<T>::min() / std::numeric_limits<T>::epsilon() * static_cast<T>(n);
  return each<T>([&lost, least, root](T v) {
    if (v == 0)
      lost.all.store(true, std::memory_order_relaxed);
    else if (v < least || !(v <= std::numeric_limits<T>::max()))
      lost.some.store(true, std::memory_order_relaxed);
    return root(v);
  });
}

template <class T>
void norm_of_powers(const Tensor& x, double p, const Dims& dims, Tensor& y, Lost& lost) {
  const int64_t n = reduced_count(x, dims);
  if (p == 2)
    return run_fold<T>(Fold::SumSquares, x, dims, y,
                       root_of_sums<T>(lost, n, [](T v) { return std::sqrt(v); }));
  const T power = static_cast<T>(p);
  run_loops(Plain<T, T, PowerOf<T>>{{power}}, x, dims, y,
            root_of_sums<T>(lost, n, [power](T v) { return std::pow(v, 1 / power); }));
}

// Whether some result is of elements that are not all 0, though it is 0.
template <class T>
bool lost_all(const Tensor& x, const Dims& dims, const Tensor& y) {
  Tensor sums = empty_plain(y.sizes(), {dtype_of<T>, y.device()});
  const Tensor norms = converted(y, dtype_of<T>);
  run_fold<T>(Fold::SumAbs, x, dims, sums);
  const T *sum = sums.elements<T>(), *norm = norms.elements<T>();
  for (int64_t i = 0; i < y.numel(); ++i)
    if (norm[i] == 0 && sum[i] != 0) return true;
  return false;
}

// The same in double, by powers of the ratios to the largest magnitude, or the smallest where p is
// negative.
void norm_of_lost(const Tensor& x, double p, const Dims& dims, Tensor& y) {
  Tensor sizes = magnitudes<double>(x), norms = empty_plain(y.sizes(), options_of(sizes)),
         extremes = empty_plain(y.sizes(), options_of(sizes));
  run_fold<double>(p > 0 ? Fold::Max : Fold::Min, sizes, dims, extremes);
  double* const units = extremes.elements<double>();
  for (int64_t i = 0; i < y.numel(); ++i)
    if (!(units[i] > 0 && units[i] <= std::numeric_limits<double>::max())) units[i] = 1;
  Dims kept = x.sizes();
  for (const int64_t d : dims) kept[static_cast<int>(d)] = 1;
  Tensor of_each = empty_plain(x.sizes(), options_of(sizes));
  copy_into(of_each, views::expand(views::view(extremes, kept), x.sizes()));
  double* const ratios = sizes.elements<double>();
  const double* const unit = of_each.elements<double>();
  parallel_for(sizes.numel(), kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) ratios[i] /= unit[i];
  });
  Lost ignored;
  norm_of_powers<double>(sizes, p, dims, norms, ignored);
  double* const to = norms.elements<double>();
  for (int64_t i = 0; i < y.numel(); ++i) to[i] *= units[i];
  copy_into(y, norms);
}

template <class T>
void norm_of(const Tensor& x, double p, const Dims& dims, Tensor& y) {
  if (p == 1) {
    run_fold<T>(Fold::SumAbs, x, dims, y);
  } else if (p == 0) {
    run_plain<CountOf, bool, int64_t>(x, dims, y);
  } else if (std::isinf(p) && x.numel() == 0) {
    run_fold<T>(Fold::Sum, x, dims, y);
  } else if (std::isinf(p)) {
    run_fold<T>(p > 0 ? Fold::Max : Fold::Min, magnitudes<T>(unexpanded(x, dims).x), dims, y);
  } else {
    Lost lost;
    norm_of_powers<T>(x, p, dims, y, lost);
    if (x.numel() == 0) return;
    if (lost.some || (lost.all && (p < 0 || lost_all<T>(x, dims, y)))) norm_of_lost(x, p, dims, y);
  }
}

std::unique_ptr<RunFold> make_run_fold(std::string_view op, DType from, DType to, int64_t numel) {
  std::unique_ptr<RunFold> out;
  const auto keep = [&]<class R>(const R& reducer, const Finish& finish) {
    out = std::make_unique<RunFold>(std::make_unique<R>(reducer), finish, numel);
  };
  if (op == "sum" || op == "mean")
    with_sum(from, to, op == "mean" ? std::optional(numel) : std::nullopt, keep);
  else if (op == "amax" || op == "amin")
    with_extreme(from, op == "amax", keep);
  return out;
}

const bool kMakesRunFolds = (run_fold_maker = make_run_fold, true);

}  // namespace

void sum(const Tensor& x, const Dims& dim, bool, std::optional<DType>, Tensor& y) {
  sum_of(x, dim, y, std::nullopt);
}

void mean(const Tensor& x, const Dims& dims, bool, std::optional<DType>, Tensor& y) {
  sum_of(x, dims, y, reduced_count(x, dims));
}

void nansum(const Tensor& x, const Dims& dims, bool, std::optional<DType>, Tensor& y) {
  if (!is_floating(y.dtype())) return sum_of(x, dims, y, std::nullopt);
  visit_compute<dtypes::floating>(y.dtype(),
                                  [&]<class C>() { run_fold<C>(Fold::SumNumbers, x, dims, y); });
}

void prod(const Tensor& x, std::optional<int64_t> dim, bool, std::optional<DType>, Tensor& y) {
  product_of(x, dim && x.dim() ? Dims{*dim} : all_dims(x.dim()), y);
}

void amax(const Tensor& x, const Dims& dim, bool, Tensor& y) { extreme(x, dim, y, true); }
void amin(const Tensor& x, const Dims& dim, bool, Tensor& y) { extreme(x, dim, y, false); }

void aminmax(const Tensor& x, const Dims& dims, bool, Tensor& least, Tensor& largest) {
  if (x.numel() == 0) return;
  const bool whole = dims.size() == x.dim();
  const bool in_rows = x.is_contiguous() && (whole || dims == Dims{x.dim() - 1});
  constexpr DTypeSet kVectors = dtypes::floating | kSmallIntegers | bit(DType::Int64);
  if (!in_rows || !contains(kVectors, x.dtype())) {
    extreme(x, dims, least, false);
    return extreme(x, dims, largest, true);
  }
  visit<kVectors>(x.dtype(), [&]<class In>() {
    row_extremes(x.elements<In>(), x.numel() / least.numel(), least, largest);
  });
}

void any(const Tensor& x, const Dims& dim, bool, Tensor& y) {
  run_plain<TruthOf<false>, bool>(x, dim, y);
}

void all(const Tensor& x, const Dims& dim, bool, Tensor& y) {
  run_plain<TruthOf<true>, bool>(x, dim, y);
}

void count_nonzero(const Tensor& x, const Dims& dim, Tensor& y) {
  run_plain<CountOf, bool, int64_t>(x, dim, y);
}

void norm(const Tensor& x, double p, const Dims& dims, bool, std::optional<DType>, Tensor& y) {
  visit_compute<dtypes::floating>(y.dtype(), [&]<class C>() {
    norm_of<C>(is_complex(x.dtype()) ? magnitudes<C>(x) : x, p, dims, y);
  });
}

}  // namespace moonlet::cpu
