// tensor/cpu/reduce/reduce_simd.cpp: folds and sums of exponentials, one version per instruction
// set, chosen when the program runs.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/cpu/reduce/reduce_simd.cpp"
//
#include "tensor/cpu/common/thresholds.h"
#include "tensor/cpu/pointwise/pointwise_targets.h"
//
#include "hwy/foreach_target.h"
//
#include <algorithm>
#include <limits>
#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"

#include "tensor/cpu/reduce/reduce.h"
#include "tensor/cpu/simd/fold_vector-inl.h"
#include "tensor/cpu/simd/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace moonlet::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using moonlet::HWY_NAMESPACE::fold_lanes;
using moonlet::HWY_NAMESPACE::fold_vector;
using moonlet::HWY_NAMESPACE::kFoldSteps;
using moonlet::HWY_NAMESPACE::vec;
using moonlet::HWY_NAMESPACE::widened;
using moonlet::HWY_NAMESPACE::widened_pair;

// How one element joins an accumulator; `start` is the accumulator's first value.
struct Add {
  template <class D, class V>
  static HWY_INLINE V join(D, V acc, V x) {
    return hn::Add(acc, x);
  }
  template <class D, class V>
  static HWY_INLINE V merge(D d, V a, V b) {
    return join(d, a, b);
  }
  template <class T>
  static T start() {
    return 0;
  }
};
struct AddSquare : Add {
  template <class D, class V>
  static HWY_INLINE V join(D, V acc, V x) {
    return hn::MulAdd(x, x, acc);
  }
};
struct AddAbs : Add {
  template <class D, class V>
  static HWY_INLINE V join(D, V acc, V x) {
    return hn::Add(acc, hn::Abs(x));
  }
};
struct AddNumber : Add {
  template <class D, class V>
  static HWY_INLINE V join(D, V acc, V x) {
    return hn::IfThenElse(hn::IsNaN(x), acc, hn::Add(acc, x));
  }
};
struct Multiply {
  template <class D, class V>
  static HWY_INLINE V join(D, V acc, V x) {
    return hn::Mul(acc, x);
  }
  template <class D, class V>
  static HWY_INLINE V merge(D d, V a, V b) {
    return join(d, a, b);
  }
  template <class T>
  static T start() {
    return 1;
  }
};
// The end of T's range that any number is at least, or at most.
template <class T>
constexpr T least_of() {
  return std::is_integral_v<T> ? std::numeric_limits<T>::lowest()
                               : -std::numeric_limits<T>::infinity();
}
template <class T>
constexpr T most_of() {
  return std::is_integral_v<T> ? std::numeric_limits<T>::max() : std::numeric_limits<T>::infinity();
}
// Keeps acc where it wins or is NaN; x NaN never loses. (Ne(v, v) is false for NaN on AVX-512.)
struct Larger {
  template <class V>
  static HWY_INLINE V of_numbers(V acc, V x) {
    return hn::Max(acc, x);
  }
  template <class D, class V>
  static HWY_INLINE V join(D, V acc, V x) {
    if constexpr (std::is_integral_v<hn::TFromV<V>>)
      return hn::Max(acc, x);
    else
      return hn::IfThenElse(hn::Or(hn::Ge(acc, x), hn::IsNaN(acc)), acc, x);
  }
  template <class D, class V>
  static HWY_INLINE V merge(D d, V a, V b) {
    return join(d, a, b);
  }
  template <class T>
  static T start() {
    return least_of<T>();
  }
};
struct Smaller {
  template <class V>
  static HWY_INLINE V of_numbers(V acc, V x) {
    return hn::Min(acc, x);
  }
  template <class D, class V>
  static HWY_INLINE V join(D, V acc, V x) {
    if constexpr (std::is_integral_v<hn::TFromV<V>>)
      return hn::Min(acc, x);
    else
      return hn::IfThenElse(hn::Or(hn::Le(acc, x), hn::IsNaN(acc)), acc, x);
  }
  template <class D, class V>
  static HWY_INLINE V merge(D d, V a, V b) {
    return join(d, a, b);
  }
  template <class T>
  static T start() {
    return most_of<T>();
  }
};

template <class F, class In, class T = compute_t<In>>
void rows(T* HWY_RESTRICT acc, const In* HWY_RESTRICT x, int64_t count, int64_t stride,
          int64_t cols);

// Dense rows of a few columns: so many at a time are one row, which vectors fit in. Returns how
// many rows that were.
template <class F, class In, class T = compute_t<In>>
int64_t narrow_rows(T* HWY_RESTRICT acc, const In* HWY_RESTRICT x, int64_t count, int64_t cols) {
  constexpr int64_t kGroup = thresholds::reduce::kNarrowRows,
                    kNarrow = thresholds::reduce::kNarrowColumns;
  const int64_t groups = count / kGroup;
  if (cols >= kNarrow || groups < 4) return 0;
  T wide[kGroup * kNarrow];
  std::fill_n(wide, kGroup * cols, F::template start<T>());
  rows<F, In, T>(wide, x, groups, kGroup * cols, kGroup * cols);
  const hn::CappedTag<T, 1> one;
  for (int64_t i = 0; i < kGroup; ++i)
    for (int64_t j = 0; j < cols; ++j)
      acc[j] = hn::GetLane(F::merge(one, hn::Set(one, acc[j]), hn::Set(one, wide[i * cols + j])));
  return groups * kGroup;
}

template <class F, class In, class T>
void rows(T* HWY_RESTRICT acc, const In* HWY_RESTRICT x, int64_t count, int64_t stride,
          int64_t cols) {
  if (stride == cols) {
    const int64_t done = narrow_rows<F, In, T>(acc, x, count, cols);
    x += done * stride;
    count -= done;
  }
  const hn::ScalableTag<T> d;
  const hn::CappedTag<T, 1> one;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  // Four rows meet in registers before they touch the accumulators.
  for (; i + 4 <= count; i += 4) {
    const In* HWY_RESTRICT r = x + i * stride;
    int64_t j = 0;
    for (; j + lanes <= cols; j += lanes) {
      auto a = hn::LoadU(d, acc + j);
      a = F::join(d, a, widened(d, r + j));
      a = F::join(d, a, widened(d, r + stride + j));
      a = F::join(d, a, widened(d, r + 2 * stride + j));
      a = F::join(d, a, widened(d, r + 3 * stride + j));
      hn::StoreU(a, d, acc + j);
    }
    for (; j < cols; ++j) {
      auto a = hn::Set(one, acc[j]);
      for (int k = 0; k < 4; ++k) a = F::join(one, a, widened(one, r + k * stride + j));
      acc[j] = hn::GetLane(a);
    }
  }
  if (i == count) return;
  const In* HWY_RESTRICT r = x + i * stride;
  const int64_t rest = count - i;
  int64_t j = 0;
  for (; j + lanes <= cols; j += lanes) {
    auto a = hn::LoadU(d, acc + j);
    for (int64_t k = 0; k < rest; ++k) a = F::join(d, a, widened(d, r + k * stride + j));
    hn::StoreU(a, d, acc + j);
  }
  for (; j < cols; ++j) {
    auto a = hn::Set(one, acc[j]);
    for (int64_t k = 0; k < rest; ++k) a = F::join(one, a, widened(one, r + k * stride + j));
    acc[j] = hn::GetLane(a);
  }
}

// f<F>() for the functor of a kind; of int64 there are sums and extremes only.
template <class T, class Body>
HWY_INLINE auto with_kind(Fold kind, Body&& f) {
  if constexpr (std::is_floating_point_v<T>) {
    switch (kind) {
      case Fold::Sum: return f.template operator()<Add>();
      case Fold::SumSquares: return f.template operator()<AddSquare>();
      case Fold::SumAbs: return f.template operator()<AddAbs>();
      case Fold::SumNumbers: return f.template operator()<AddNumber>();
      case Fold::Product: return f.template operator()<Multiply>();
      default: break;
    }
  }
  if constexpr (std::is_integral_v<T>)
    if (kind == Fold::Sum) return f.template operator()<Add>();
  return kind == Fold::Max ? f.template operator()<Larger>() : f.template operator()<Smaller>();
}

// The extreme of x[0] to x[n - 1] by F, if there are only numbers among them. NaN shows in their
// sum, which takes less than to compare each element with itself; so do infinities of both signs,
// and then F's whole rule has to decide.
template <class F, class In>
compute_t<In> extreme(const In* HWY_RESTRICT x, int64_t n) {
  using T = compute_t<In>;
  const hn::ScalableTag<T> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto start = hn::Set(d, F::template start<T>());
  auto a0 = start, a1 = start, a2 = start, a3 = start;
  auto v0 = start, v1 = start, v2 = start, v3 = start;
  auto s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
  int64_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    widened_pair(d, x + i, v0, v1);
    widened_pair(d, x + i + 2 * lanes, v2, v3);
    a0 = F::of_numbers(a0, v0), s0 = hn::Add(s0, v0);
    a1 = F::of_numbers(a1, v1), s1 = hn::Add(s1, v1);
    a2 = F::of_numbers(a2, v2), s2 = hn::Add(s2, v2);
    a3 = F::of_numbers(a3, v3), s3 = hn::Add(s3, v3);
  }
  for (; i + lanes <= n; i += lanes) {
    v0 = widened(d, x + i);
    a0 = F::of_numbers(a0, v0), s0 = hn::Add(s0, v0);
  }
  const auto sum = hn::Add(hn::Add(s0, s1), hn::Add(s2, s3));
  if (i == 0 || !hn::AllFalse(d, hn::IsNaN(sum))) return fold_vector<F>(x, n);
  const auto all = F::of_numbers(F::of_numbers(a0, a1), F::of_numbers(a2, a3));
  const hn::CappedTag<T, 1> one;
  auto last = hn::Set(one, fold_lanes<F>(d, all));
  for (; i < n; ++i) last = F::join(one, last, widened(one, x + i));
  return hn::GetLane(last);
}

template <class In>
compute_t<In> run_kind(Fold kind, const In* x, int64_t n) {
  using T = compute_t<In>;
  return with_kind<T>(kind, [&]<class F>() {
    if constexpr (std::is_floating_point_v<T> &&
                  requires(hn::Vec<hn::ScalableTag<T>> v) { F::of_numbers(v, v); })
      return extreme<F>(x, n);
    else
      return fold_vector<F>(x, n);
  });
}

template <class In>
void rows_kind(Fold kind, compute_t<In>* acc, const In* x, int64_t count, int64_t stride,
               int64_t cols) {
  with_kind<compute_t<In>>(kind, [&]<class F>() { rows<F>(acc, x, count, stride, cols); });
}

template <class T>
T exp_total(const T* HWY_RESTRICT x, int64_t n, T top) {
  const hn::ScalableTag<T> d;
  const hn::CappedTag<T, 1> one;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  auto sum = hn::Zero(d);
  int64_t i = 0;
  while (i + lanes <= n) {
    auto part = hn::Zero(d);
    const int64_t end = std::min(n - lanes, i + (kFoldSteps - 1) * lanes);
    for (; i <= end; i += lanes)
      part = hn::Add(part, hn::Exp(d, hn::Sub(hn::LoadU(d, x + i), hn::Set(d, top))));
    sum = hn::Add(sum, part);
  }
  T total = hn::GetLane(hn::SumOfLanes(d, sum));
  for (; i < n; ++i) total += hn::GetLane(hn::Exp(one, hn::Set(one, x[i] - top)));
  return total;
}

// Rows side by side, as many as vectors are filled with.
template <class T>
void logsumexp_across_of(const T* HWY_RESTRICT x, int64_t rows, int64_t n, T* HWY_RESTRICT y) {
  using moonlet::HWY_NAMESPACE::vexp;
  using moonlet::HWY_NAMESPACE::vlog;
  constexpr int64_t kRows = thresholds::reduce::kLogRows;
  const hn::ScalableTag<T> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  HWY_ALIGN T columns[cpu::kShortRow * kRows] = {};
  HWY_ALIGN T sums[kRows];
  for (int64_t first = 0; first < rows; first += kRows) {
    const int64_t count = std::min(kRows, rows - first);
    for (int64_t r = 0; r < count; ++r)
      for (int64_t k = 0; k < n; ++k) columns[k * kRows + r] = x[(first + r) * n + k];
    for (int64_t r = 0; r < count; r += lanes) {
      auto most = hn::Load(d, columns + r);
      for (int64_t k = 1; k < n; ++k)
        most = Larger::join(d, most, hn::Load(d, columns + k * kRows + r));
      auto sum = hn::Zero(d);
      for (int64_t k = 0; k < n; ++k)
        sum = hn::Add(sum, vexp(vec<T>(hn::Sub(hn::Load(d, columns + k * kRows + r), most))).v);
      const auto result = hn::Add(most, vlog(vec<T>(sum)).v);
      hn::Store(hn::IfThenElse(hn::IsFinite(most), result, most), d, sums + r);
    }
    std::copy_n(sums, count, y + first);
  }
}
void across_f32(const float* x, int64_t rows, int64_t n, float* y) {
  logsumexp_across_of(x, rows, n, y);
}
void across_f64(const double* x, int64_t rows, int64_t n, double* y) {
  logsumexp_across_of(x, rows, n, y);
}

float exp_f32(const float* x, int64_t n, float top) { return exp_total(x, n, top); }
double exp_f64(const double* x, int64_t n, double top) { return exp_total(x, n, top); }

#define MOONLET_FOLDS(In, suffix)                                                                \
  compute_t<In> run_##suffix(Fold kind, const In* x, int64_t n) { return run_kind(kind, x, n); } \
  void rows_##suffix(Fold kind, compute_t<In>* acc, const In* x, int64_t rows, int64_t stride,   \
                     int64_t cols) {                                                             \
    rows_kind(kind, acc, x, rows, stride, cols);                                                 \
  }
MOONLET_FOLDS(float, f32)
MOONLET_FOLDS(double, f64)
MOONLET_FOLDS(int64_t, i64)
MOONLET_FOLDS(bfloat16, bf16)
MOONLET_FOLDS(half, f16)

}  // namespace HWY_NAMESPACE
}  // namespace moonlet::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace moonlet::cpu {

HWY_EXPORT(exp_f32);
HWY_EXPORT(exp_f64);
HWY_EXPORT(across_f32);
HWY_EXPORT(across_f64);

void logsumexp_across(const float* x, int64_t rows, int64_t n, float* y) {
  HWY_DYNAMIC_DISPATCH(across_f32)(x, rows, n, y);
}
void logsumexp_across(const double* x, int64_t rows, int64_t n, double* y) {
  HWY_DYNAMIC_DISPATCH(across_f64)(x, rows, n, y);
}

template <>
float sum_exp<float>(const float* x, int64_t n, float top) {
  return HWY_DYNAMIC_DISPATCH(exp_f32)(x, n, top);
}
template <>
double sum_exp<double>(const double* x, int64_t n, double top) {
  return HWY_DYNAMIC_DISPATCH(exp_f64)(x, n, top);
}

#define MOONLET_FOLD_TABLE(In, suffix)                                                          \
  HWY_EXPORT(run_##suffix);                                                                     \
  HWY_EXPORT(rows_##suffix);                                                                    \
  template <>                                                                                   \
  compute_t<In> fold_run<In>(Fold kind, const In* x, int64_t n) {                               \
    return HWY_DYNAMIC_DISPATCH(run_##suffix)(kind, x, n);                                      \
  }                                                                                             \
  template <>                                                                                   \
  void fold_rows<In>(Fold kind, compute_t<In> * acc, const In* x, int64_t rows, int64_t stride, \
                     int64_t cols) {                                                            \
    HWY_DYNAMIC_DISPATCH(rows_##suffix)(kind, acc, x, rows, stride, cols);                      \
  }
MOONLET_FOLD_TABLE(float, f32)
MOONLET_FOLD_TABLE(double, f64)
MOONLET_FOLD_TABLE(int64_t, i64)
MOONLET_FOLD_TABLE(bfloat16, bf16)
MOONLET_FOLD_TABLE(half, f16)

}  // namespace moonlet::cpu
#endif
