// tensor/cpu/reduce_simd.cpp: folds of float32 and float64 runs and rows, one version per
// instruction set, chosen when the program runs.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/cpu/reduce_simd.cpp"
//
#include "tensor/cpu/pointwise_targets.h"
//
#include "hwy/foreach_target.h"
//
#include <limits>
#include "hwy/highway.h"

#include "tensor/cpu/fold_vector-inl.h"
#include "tensor/cpu/reduce.h"

HWY_BEFORE_NAMESPACE();
namespace moonlet::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using moonlet::HWY_NAMESPACE::fold_vector;

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
// Keeps acc where it wins or is NaN; x NaN never loses. (Ne(v, v) is false for NaN on AVX-512.)
struct Larger {
  template <class D, class V>
  static HWY_INLINE V join(D, V acc, V x) {
    return hn::IfThenElse(hn::Or(hn::Ge(acc, x), hn::IsNaN(acc)), acc, x);
  }
  template <class D, class V>
  static HWY_INLINE V merge(D d, V a, V b) {
    return join(d, a, b);
  }
  template <class T>
  static T start() {
    return -std::numeric_limits<T>::infinity();
  }
};
struct Smaller {
  template <class D, class V>
  static HWY_INLINE V join(D, V acc, V x) {
    return hn::IfThenElse(hn::Or(hn::Le(acc, x), hn::IsNaN(acc)), acc, x);
  }
  template <class D, class V>
  static HWY_INLINE V merge(D d, V a, V b) {
    return join(d, a, b);
  }
  template <class T>
  static T start() {
    return std::numeric_limits<T>::infinity();
  }
};

template <class F, class T>
void rows(T* HWY_RESTRICT acc, const T* HWY_RESTRICT x, int64_t count, int64_t stride,
          int64_t cols) {
  const hn::ScalableTag<T> d;
  const hn::CappedTag<T, 1> one;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  // Four rows meet in registers before they touch the accumulators.
  for (; i + 4 <= count; i += 4) {
    const T* HWY_RESTRICT r = x + i * stride;
    int64_t j = 0;
    for (; j + lanes <= cols; j += lanes) {
      auto a = hn::LoadU(d, acc + j);
      a = F::join(d, a, hn::LoadU(d, r + j));
      a = F::join(d, a, hn::LoadU(d, r + stride + j));
      a = F::join(d, a, hn::LoadU(d, r + 2 * stride + j));
      a = F::join(d, a, hn::LoadU(d, r + 3 * stride + j));
      hn::StoreU(a, d, acc + j);
    }
    for (; j < cols; ++j) {
      auto a = hn::Set(one, acc[j]);
      for (int k = 0; k < 4; ++k) a = F::join(one, a, hn::Set(one, r[k * stride + j]));
      acc[j] = hn::GetLane(a);
    }
  }
  for (; i < count; ++i) {
    const T* HWY_RESTRICT r = x + i * stride;
    int64_t j = 0;
    for (; j + lanes <= cols; j += lanes) {
      hn::StoreU(F::join(d, hn::LoadU(d, acc + j), hn::LoadU(d, r + j)), d, acc + j);
    }
    for (; j < cols; ++j) {
      acc[j] = hn::GetLane(F::join(one, hn::Set(one, acc[j]), hn::Set(one, r[j])));
    }
  }
}

template <class T>
T run_kind(Fold kind, const T* x, int64_t n) {
  switch (kind) {
    case Fold::Sum: return fold_vector<Add>(x, n);
    case Fold::SumSquares: return fold_vector<AddSquare>(x, n);
    case Fold::SumAbs: return fold_vector<AddAbs>(x, n);
    case Fold::Max: return fold_vector<Larger>(x, n);
    default: return fold_vector<Smaller>(x, n);
  }
}

template <class T>
void rows_kind(Fold kind, T* acc, const T* x, int64_t count, int64_t stride, int64_t cols) {
  switch (kind) {
    case Fold::Sum: return rows<Add>(acc, x, count, stride, cols);
    case Fold::SumSquares: return rows<AddSquare>(acc, x, count, stride, cols);
    case Fold::SumAbs: return rows<AddAbs>(acc, x, count, stride, cols);
    case Fold::Max: return rows<Larger>(acc, x, count, stride, cols);
    default: return rows<Smaller>(acc, x, count, stride, cols);
  }
}

float run_f32(Fold kind, const float* x, int64_t n) { return run_kind(kind, x, n); }
double run_f64(Fold kind, const double* x, int64_t n) { return run_kind(kind, x, n); }
void rows_f32(Fold kind, float* acc, const float* x, int64_t count, int64_t stride, int64_t cols) {
  rows_kind(kind, acc, x, count, stride, cols);
}
void rows_f64(Fold kind, double* acc, const double* x, int64_t count, int64_t stride,
              int64_t cols) {
  rows_kind(kind, acc, x, count, stride, cols);
}

}  // namespace HWY_NAMESPACE
}  // namespace moonlet::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace moonlet::cpu {

HWY_EXPORT(run_f32);
HWY_EXPORT(run_f64);
HWY_EXPORT(rows_f32);
HWY_EXPORT(rows_f64);

template <>
float fold_run<float>(Fold kind, const float* x, int64_t n) {
  return HWY_DYNAMIC_DISPATCH(run_f32)(kind, x, n);
}
template <>
double fold_run<double>(Fold kind, const double* x, int64_t n) {
  return HWY_DYNAMIC_DISPATCH(run_f64)(kind, x, n);
}
template <>
void fold_rows<float>(Fold kind, float* acc, const float* x, int64_t rows, int64_t stride,
                      int64_t cols) {
  HWY_DYNAMIC_DISPATCH(rows_f32)(kind, acc, x, rows, stride, cols);
}
template <>
void fold_rows<double>(Fold kind, double* acc, const double* x, int64_t rows, int64_t stride,
                       int64_t cols) {
  HWY_DYNAMIC_DISPATCH(rows_f64)(kind, acc, x, rows, stride, cols);
}

}  // namespace moonlet::cpu
#endif
