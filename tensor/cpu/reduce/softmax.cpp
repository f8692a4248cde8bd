// tensor/cpu/reduce/softmax.cpp: the CPU kernels of softmax, log_softmax and their gradients,
// vectorised along the rows when `dim` is the last one and across neighbouring columns otherwise.
#include "tensor/cpu/common/thresholds.h"
#include "tensor/cpu/pointwise/pointwise_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/cpu/reduce/softmax.cpp"
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include "hwy/foreach_target.h"

#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"
#include "tensor/cpu/common/contiguous.h"
#include "tensor/cpu/common/parallel.h"
#include "tensor/cpu/copy/convert.h"
#include "tensor/cpu/simd/each_vector-inl.h"
#include "tensor/cpu/simd/exp_sums-inl.h"
#include "tensor/cpu/simd/max_of_lanes-inl.h"

#ifndef MOONLET_TENSOR_CPU_SOFTMAX_
#define MOONLET_TENSOR_CPU_SOFTMAX_
namespace moonlet::cpu {
// The units [begin, end) of a tensor seen as (outer, n, inner), in order: a unit is a row of n, or
// with inner > 1 a tile of columns. `a` is x, or the gradient; `b` the result in backward passes.
struct SoftmaxJob {
  const void *a, *b;
  void* out;
  int64_t n, inner, begin, end;
  bool log;
};
}  // namespace moonlet::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace moonlet {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using cpu::SoftmaxJob;

// A row that fits a vector.
template <class T>
HWY_INLINE void softmax_vector(const T* x, T* y, int64_t n, bool log) {
  const hn::ScalableTag<T> d;
  const auto v = load_part(x, n, -std::numeric_limits<T>::infinity());
  const auto below = hn::Sub(v, max_of_lanes(d, v)), e = exp_below(d, below);
  const T total = hn::GetLane(hn::SumOfLanes(d, e));
  store_part(log ? hn::Sub(below, hn::Set(d, std::log(total))) : hn::Mul(e, hn::Set(d, 1 / total)),
             y, n);
}
template <class T>
HWY_INLINE void backward_vector(const T* g, const T* y, T* out, int64_t n, bool log) {
  const hn::ScalableTag<T> d;
  const auto v = load_part(g, n, T(0)), r = load_part(y, n, T(0));
  const auto t = hn::SumOfLanes(d, log ? v : hn::Mul(v, r));
  store_part(log ? hn::NegMulAdd(exp_below(d, r), t, v) : hn::Mul(r, hn::Sub(v, t)), out, n);
}

// NaN passes through the differences, so it does not matter that the maximum may miss it.
template <class T>
void softmax_row(const T* x, T* y, int64_t n, bool log) {
  const hn::ScalableTag<T> whole;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(whole)), rest = n % lanes, dense = n - rest;
  if (n <= lanes) return softmax_vector(x, y, n, log);
  const T top = row_max(x, n);
  Sum<T> sum;
  const auto power = [&](hn::Vec<hn::ScalableTag<T>> v) HWY_ATTR {
    const auto e = exp_below(whole, hn::Sub(v, hn::Set(whole, top)));
    sum.add(whole, e);
    return e;
  };
  each_vector<T>(dense, [&](auto, int64_t i) HWY_ATTR {
    const auto e = power(hn::LoadU(whole, x + i));
    if (!log) hn::StoreU(e, whole, y + i);
  });
  if (rest != 0) {
    // Elements that are not there add nothing; one by one the others would take as long as a
    // vector.
    const auto e = power(load_part(x + dense, rest, -std::numeric_limits<T>::infinity()));
    if (!log) store_part(e, y + dense, rest);
  }
  const T total = sum.total();
  if (log) {
    const T shift = std::log(total);
    each_vector<T>(n, [&](auto d, int64_t i) HWY_ATTR {
      hn::StoreU(hn::Sub(hn::Sub(hn::LoadU(d, x + i), hn::Set(d, top)), hn::Set(d, shift)), d,
                 y + i);
    });
    return;
  }
  const T scale = T(1) / total;
  each_vector<T>(n, [&](auto d, int64_t i) HWY_ATTR {
    hn::StoreU(hn::Mul(hn::LoadU(d, y + i), hn::Set(d, scale)), d, y + i);
  });
}

template <class E>
void backward_row(const E* g, const E* y, E* out, int64_t n, bool log) {
  using T = compute_t<E>;
  if constexpr (std::is_same_v<E, T>)
    if (n <= static_cast<int64_t>(hn::Lanes(hn::ScalableTag<T>())))
      return backward_vector(g, y, out, n, log);
  Sum<T> sum;
  each_vector<T>(n, [&](auto d, int64_t i) HWY_ATTR {
    const auto v = widened(d, g + i);
    sum.add(d, log ? v : hn::Mul(v, widened(d, y + i)));
  });
  const T total = sum.total();
  each_vector<T>(n, [&](auto d, int64_t i) HWY_ATTR {
    const auto v = widened(d, g + i), r = widened(d, y + i), t = hn::Set(d, total);
    store_narrowed(d, log ? hn::NegMulAdd(exp_below(d, r), t, v) : hn::Mul(r, hn::Sub(v, t)),
                   out + i);
  });
}

// Columns [0, width) of a slice; elements of a column are `inner` apart. Walks the rows in order,
// with one value per column kept in a small array.
template <class T>
void softmax_tile(const T* x, T* y, int64_t n, int64_t inner, int64_t width, bool log) {
  T top[kSoftmaxTile], sum[kSoftmaxTile];
  std::copy_n(x, width, top);
  std::fill_n(sum, width, T(0));
  each_tile_row(1, n, [&](int64_t i) HWY_ATTR {
    each_vector<T>(width, [&](auto d, int64_t j) HWY_ATTR {
      hn::StoreU(hn::Max(hn::LoadU(d, top + j), hn::LoadU(d, x + i * inner + j)), d, top + j);
    });
  });
  each_tile_row(0, n, [&](int64_t i) HWY_ATTR {
    each_vector<T>(width, [&](auto d, int64_t j) HWY_ATTR {
      const int64_t at = i * inner + j;
      const auto e = exp_below(d, hn::Sub(hn::LoadU(d, x + at), hn::LoadU(d, top + j)));
      if (!log) hn::StoreU(e, d, y + at);
      hn::StoreU(hn::Add(hn::LoadU(d, sum + j), e), d, sum + j);
    });
  });
  for (int64_t j = 0; j < width; ++j) sum[j] = log ? std::log(sum[j]) : T(1) / sum[j];
  each_tile_row(0, n, [&](int64_t i) HWY_ATTR {
    each_vector<T>(width, [&](auto d, int64_t j) HWY_ATTR {
      const int64_t at = i * inner + j;
      const auto shift = hn::LoadU(d, sum + j);
      if (log)
        hn::StoreU(hn::Sub(hn::Sub(hn::LoadU(d, x + at), hn::LoadU(d, top + j)), shift), d, y + at);
      else
        hn::StoreU(hn::Mul(hn::LoadU(d, y + at), shift), d, y + at);
    });
  });
}

template <class T>
void backward_tile(const T* g, const T* y, T* out, int64_t n, int64_t inner, int64_t width,
                   bool log) {
  T sum[kSoftmaxTile];
  std::fill_n(sum, width, T(0));
  each_tile_row(0, n, [&](int64_t i) HWY_ATTR {
    each_vector<T>(width, [&](auto d, int64_t j) HWY_ATTR {
      const int64_t at = i * inner + j;
      const auto v = hn::LoadU(d, g + at);
      const auto term = log ? v : hn::Mul(v, hn::LoadU(d, y + at));
      hn::StoreU(hn::Add(hn::LoadU(d, sum + j), term), d, sum + j);
    });
  });
  each_tile_row(0, n, [&](int64_t i) HWY_ATTR {
    each_vector<T>(width, [&](auto d, int64_t j) HWY_ATTR {
      const int64_t at = i * inner + j;
      const auto v = hn::LoadU(d, g + at), r = hn::LoadU(d, y + at), t = hn::LoadU(d, sum + j);
      hn::StoreU(log ? hn::NegMulAdd(exp_below(d, r), t, v) : hn::Mul(r, hn::Sub(v, t)), d,
                 out + at);
    });
  });
}

template <class T>
void forward_units(const SoftmaxJob& job) {
  const T* x = static_cast<const T*>(job.a);
  T* y = static_cast<T*>(job.out);
  each_unit(job, [&](int64_t at, int64_t, int64_t width) HWY_ATTR {
    if (job.inner == 1)
      softmax_row(x + at, y + at, job.n, job.log);
    else
      softmax_tile(x + at, y + at, job.n, job.inner, width, job.log);
  });
}

template <class T>
void backward_units(const SoftmaxJob& job) {
  const T *g = static_cast<const T*>(job.a), *y = static_cast<const T*>(job.b);
  T* out = static_cast<T*>(job.out);
  each_unit(job, [&](int64_t at, int64_t, int64_t width) HWY_ATTR {
    if (job.inner == 1)
      backward_row(g + at, y + at, out + at, job.n, job.log);
    else
      backward_tile(g + at, y + at, out + at, job.n, job.inner, width, job.log);
  });
}

void forward_f32(const SoftmaxJob& job) { forward_units<float>(job); }
void forward_f64(const SoftmaxJob& job) { forward_units<double>(job); }
void backward_f32(const SoftmaxJob& job) { backward_units<float>(job); }
void backward_f64(const SoftmaxJob& job) { backward_units<double>(job); }
// Of rows only.
void backward_bf16(const SoftmaxJob& job) {
  const auto *g = static_cast<const bfloat16*>(job.a), *y = static_cast<const bfloat16*>(job.b);
  auto* out = static_cast<bfloat16*>(job.out);
  each_unit(job, [&](int64_t at, int64_t, int64_t)
                     HWY_ATTR { backward_row(g + at, y + at, out + at, job.n, job.log); });
}

}  // namespace HWY_NAMESPACE
}  // namespace moonlet
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace moonlet {
HWY_EXPORT(forward_f32);
HWY_EXPORT(forward_f64);
HWY_EXPORT(backward_f32);
HWY_EXPORT(backward_f64);
HWY_EXPORT(backward_bf16);

namespace cpu {
namespace {

void run(bool backward, bool f64, const SoftmaxJob& job) {
  if (backward)
    f64 ? HWY_DYNAMIC_DISPATCH(backward_f64)(job) : HWY_DYNAMIC_DISPATCH(backward_f32)(job);
  else
    f64 ? HWY_DYNAMIC_DISPATCH(forward_f64)(job) : HWY_DYNAMIC_DISPATCH(forward_f32)(job);
}

void bfloat16_rows_backward(const Tensor& g, const Tensor& result, int64_t n, bool log, Tensor& y) {
  parallel_for(y.numel() / n, grain_for(n * 4), [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(backward_bf16)
    ({g.raw(), result.raw(), y.raw(), n, 1, begin, end, log});
  });
}

// Rows of a 16-bit format, widened a few at a time.
void half_rows(const Tensor& a, const Tensor& b, int64_t n, bool log, Tensor& y) {
  if (b.defined() && y.dtype() == DType::BFloat16) return bfloat16_rows_backward(a, b, n, log, y);
  constexpr int64_t kTogether = thresholds::reduce::kSoftmaxWidened;
  const Converter widen = converter(y.dtype(), DType::Float32);
  const Converter narrow = converter(DType::Float32, y.dtype());
  const int64_t size = static_cast<int64_t>(size_of(y.dtype())), wide = sizeof(float);
  parallel_for(y.numel() / n, grain_for(n * 4), [&](int64_t begin, int64_t end) {
    const int64_t group = std::clamp<int64_t>(kTogether / n, 1, end - begin), room = group * n;
    const std::unique_ptr<float[]> block(new float[static_cast<size_t>(2 * room)]);
    char *first = reinterpret_cast<char*>(block.get()), *second = first + room * wide;
    for (int64_t row = begin; row < end; row += group) {
      const int64_t rows = std::min(group, end - row), at = row * n * size;
      widen(a.raw() + at, size, first, wide, rows * n);
      if (b.defined()) widen(b.raw() + at, size, second, wide, rows * n);
      run(b.defined(), false, {first, second, first, n, 1, 0, rows, log});
      narrow(first, wide, y.raw() + at, size, rows * n);
    }
  });
}

// `b` is undefined in the forward pass.
void slices(const Tensor& a, const Tensor& b, int64_t dim_given, bool log, Tensor& y) {
  if (y.numel() == 0) return;
  const DType compute = compute_dtype(y.dtype());
  const int dim = wrapped(dim_given, y.dim());
  int64_t inner = 1;
  for (int i = dim + 1; i < y.dim(); ++i) inner *= y.size(i);
  const int64_t n = y.dim() == 0 ? 1 : y.size(dim);
  if (compute != y.dtype() && inner == 1 && y.is_contiguous())
    return half_rows(converted(a, y.dtype()), converted(b, y.dtype()), n, log, y);
  const Tensor first = converted(a, compute), second = converted(b, compute);
  Tensor out = workspace(y, compute);
  const int64_t tiles =
      (inner + thresholds::reduce::kSoftmaxTile - 1) / thresholds::reduce::kSoftmaxTile;
  const int64_t units = y.numel() / (n * inner) * tiles;
  parallel_for(units, grain_for(n * std::min(inner, thresholds::reduce::kSoftmaxTile) * 4),
               [&](int64_t begin, int64_t end) {
                 run(b.defined(), compute == DType::Float64,
                     {first.raw(), b.defined() ? second.raw() : nullptr, out.raw(), n, inner, begin,
                      end, log});
               });
  write_back(y, out);
}

}  // namespace

void softmax(const Tensor& x, int64_t dim, Tensor& y) { slices(x, {}, dim, false, y); }

void softmax_grad_x(const Tensor& grad, const Tensor& result, int64_t dim, Tensor& y) {
  slices(grad, result, dim, false, y);
}

void log_softmax(const Tensor& x, int64_t dim, Tensor& y) { slices(x, {}, dim, true, y); }

void log_softmax_grad_x(const Tensor& grad, const Tensor& result, int64_t dim, Tensor& y) {
  slices(grad, result, dim, true, y);
}

}  // namespace cpu
}  // namespace moonlet
#endif
