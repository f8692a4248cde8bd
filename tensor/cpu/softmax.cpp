// tensor/cpu/softmax.cpp: the CPU kernels of softmax, log_softmax and their gradients, vectorised
// along the rows when `dim` is the last one and across neighbouring columns otherwise.
#include "tensor/cpu/pointwise_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/cpu/softmax.cpp"
#include "hwy/foreach_target.h"
#include <cmath>

#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"
#include "tensor/cpu/gemm.h"
#include "tensor/cpu/parallel.h"

#ifndef MOONLET_TENSOR_CPU_SOFTMAX_
#define MOONLET_TENSOR_CPU_SOFTMAX_
namespace moonlet::cpu {
// The slices [begin, end) of a tensor seen as (outer, n, inner): `a` is x, or the gradient; `b` the
// result in the backward passes.
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

// exp that keeps NaN, for arguments not above 0.
template <class D, class V>
HWY_INLINE V exp_below(D d, V x) {
  return hn::IfThenElse(hn::IsNaN(x), x, hn::Exp(d, x));
}

// Calls step(tag, index) for all of [0, n): whole vectors first, then single elements.
template <class T, class Step>
HWY_INLINE void each_vector(int64_t n, Step&& step) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) step(d, i);
  for (; i < n; ++i) step(hn::CappedTag<T, 1>(), i);
}

// A whole-vector accumulator and one for the single elements at the end.
template <class T>
struct Sum {
  hn::Vec<hn::ScalableTag<T>> wide;
  T rest;
  // Written out, because an implicit one is compiled for the baseline target.
  HWY_INLINE Sum() : wide(hn::Zero(hn::ScalableTag<T>())), rest(0) {}
  template <class D, class V>
  HWY_INLINE void add(D d, V v) {
    if constexpr (std::is_same_v<D, hn::ScalableTag<T>> && !std::is_same_v<D, hn::CappedTag<T, 1>>)
      wide = hn::Add(wide, v);
    else
      rest += hn::GetLane(v), (void)d;
  }
  HWY_INLINE T total() const {
    const hn::ScalableTag<T> d;
    return hn::GetLane(hn::SumOfLanes(d, wide)) + rest;
  }
};

template <class T>
T row_max(const T* x, int64_t n) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  T best = x[0];
  int64_t i = 0;
  if (n >= 4 * lanes) {
    auto a = hn::LoadU(d, x), b = a, c = a, e = a;
    for (; i + 4 * lanes <= n; i += 4 * lanes) {
      a = hn::Max(a, hn::LoadU(d, x + i));
      b = hn::Max(b, hn::LoadU(d, x + i + lanes));
      c = hn::Max(c, hn::LoadU(d, x + i + 2 * lanes));
      e = hn::Max(e, hn::LoadU(d, x + i + 3 * lanes));
    }
    best = hn::GetLane(hn::MaxOfLanes(d, hn::Max(hn::Max(a, b), hn::Max(c, e))));
  }
  for (; i < n; ++i) best = x[i] > best ? x[i] : best;
  return best;
}

// NaN passes through the differences, so it does not matter that the maximum may miss it.
template <class T>
void softmax_row(const T* x, T* y, int64_t n, bool log) {
  const T top = row_max(x, n);
  Sum<T> sum;
  each_vector<T>(n, [&](auto d, int64_t i) HWY_ATTR {
    const auto e = exp_below(d, hn::Sub(hn::LoadU(d, x + i), hn::Set(d, top)));
    if (!log) hn::StoreU(e, d, y + i);
    sum.add(d, e);
  });
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

template <class T>
void backward_row(const T* g, const T* y, T* out, int64_t n, bool log) {
  Sum<T> sum;
  each_vector<T>(n, [&](auto d, int64_t i) HWY_ATTR {
    const auto v = hn::LoadU(d, g + i);
    sum.add(d, log ? v : hn::Mul(v, hn::LoadU(d, y + i)));
  });
  const T total = sum.total();
  each_vector<T>(n, [&](auto d, int64_t i) HWY_ATTR {
    const auto v = hn::LoadU(d, g + i), r = hn::LoadU(d, y + i), t = hn::Set(d, total);
    hn::StoreU(log ? hn::NegMulAdd(exp_below(d, r), t, v) : hn::Mul(r, hn::Sub(v, t)), d, out + i);
  });
}

// One vector of neighbouring columns; elements of a column are `inner` apart.
template <class D, class T>
HWY_INLINE void softmax_columns(D d, const T* x, T* y, int64_t n, int64_t inner, bool log) {
  auto top = hn::LoadU(d, x);
  for (int64_t i = 1; i < n; ++i) top = hn::Max(top, hn::LoadU(d, x + i * inner));
  auto sum = hn::Zero(d);
  for (int64_t i = 0; i < n; ++i) {
    const auto e = exp_below(d, hn::Sub(hn::LoadU(d, x + i * inner), top));
    if (!log) hn::StoreU(e, d, y + i * inner);
    sum = hn::Add(sum, e);
  }
  const auto last = log ? hn::Log(d, sum) : hn::Div(hn::Set(d, T(1)), sum);
  // The vector logarithm turns NaN into a number.
  const auto shift = hn::IfThenElse(hn::IsNaN(sum), sum, last);
  for (int64_t i = 0; i < n; ++i) {
    const auto v = log ? hn::Sub(hn::Sub(hn::LoadU(d, x + i * inner), top), shift)
                       : hn::Mul(hn::LoadU(d, y + i * inner), shift);
    hn::StoreU(v, d, y + i * inner);
  }
}

template <class D, class T>
HWY_INLINE void backward_columns(D d, const T* g, const T* y, T* out, int64_t n, int64_t inner,
                                 bool log) {
  auto sum = hn::Zero(d);
  for (int64_t i = 0; i < n; ++i) {
    const auto v = hn::LoadU(d, g + i * inner);
    sum = hn::Add(sum, log ? v : hn::Mul(v, hn::LoadU(d, y + i * inner)));
  }
  for (int64_t i = 0; i < n; ++i) {
    const auto v = hn::LoadU(d, g + i * inner), r = hn::LoadU(d, y + i * inner);
    hn::StoreU(log ? hn::NegMulAdd(exp_below(d, r), sum, v) : hn::Mul(r, hn::Sub(v, sum)), d,
               out + i * inner);
  }
}

template <class T>
void forward_slices(const SoftmaxJob& job) {
  const T* x = static_cast<const T*>(job.a);
  T* y = static_cast<T*>(job.out);
  for (int64_t o = job.begin; o < job.end; ++o) {
    const int64_t at = o * job.n * job.inner;
    if (job.inner == 1) {
      softmax_row(x + at, y + at, job.n, job.log);
    } else {
      each_vector<T>(job.inner, [&](auto d, int64_t i) HWY_ATTR {
        softmax_columns(d, x + at + i, y + at + i, job.n, job.inner, job.log);
      });
    }
  }
}

template <class T>
void backward_slices(const SoftmaxJob& job) {
  const T *g = static_cast<const T*>(job.a), *y = static_cast<const T*>(job.b);
  T* out = static_cast<T*>(job.out);
  for (int64_t o = job.begin; o < job.end; ++o) {
    const int64_t at = o * job.n * job.inner;
    if (job.inner == 1) {
      backward_row(g + at, y + at, out + at, job.n, job.log);
    } else {
      each_vector<T>(job.inner, [&](auto d, int64_t i) HWY_ATTR {
        backward_columns(d, g + at + i, y + at + i, out + at + i, job.n, job.inner, job.log);
      });
    }
  }
}

void forward_f32(const SoftmaxJob& job) { forward_slices<float>(job); }
void forward_f64(const SoftmaxJob& job) { forward_slices<double>(job); }
void backward_f32(const SoftmaxJob& job) { backward_slices<float>(job); }
void backward_f64(const SoftmaxJob& job) { backward_slices<double>(job); }

}  // namespace HWY_NAMESPACE
}  // namespace moonlet
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace moonlet {
HWY_EXPORT(forward_f32);
HWY_EXPORT(forward_f64);
HWY_EXPORT(backward_f32);
HWY_EXPORT(backward_f64);

namespace cpu {
namespace {

void run(bool backward, bool f64, const SoftmaxJob& job) {
  if (backward)
    f64 ? HWY_DYNAMIC_DISPATCH(backward_f64)(job) : HWY_DYNAMIC_DISPATCH(backward_f32)(job);
  else
    f64 ? HWY_DYNAMIC_DISPATCH(forward_f64)(job) : HWY_DYNAMIC_DISPATCH(forward_f32)(job);
}

// x in the dtype the loops take (float32 for the 16-bit types), contiguous.
Tensor prepared(const Tensor& x, DType compute) {
  if (x.dtype() == compute) return contiguous(x);
  Tensor out = empty(x.sizes(), {compute, x.device()});
  copy_into(out, x);
  return out;
}

// `b` is undefined in the forward pass.
void slices(const Tensor& a, const Tensor& b, int64_t dim_given, bool log, Tensor& y) {
  if (y.numel() == 0) return;
  const DType compute = y.dtype() == DType::Float64 ? DType::Float64 : DType::Float32;
  const int dim = wrap_dim(dim_given, y.dim(), log ? "log_softmax" : "softmax");
  const Tensor first = prepared(a, compute), second = b.defined() ? prepared(b, compute) : b;
  Tensor out = compute == y.dtype() && y.is_contiguous()
                   ? y
                   : empty(y.sizes(), {compute, y.device()});
  int64_t inner = 1;
  for (int i = dim + 1; i < y.dim(); ++i) inner *= y.size(i);
  const int64_t n = y.dim() == 0 ? 1 : y.size(dim);
  parallel_for(y.numel() / (n * inner), grain_for(n * inner * 4), [&](int64_t begin, int64_t end) {
    run(b.defined(), compute == DType::Float64,
        {first.raw(), b.defined() ? second.raw() : nullptr, out.raw(), n, inner, begin, end, log});
  });
  if (!out.is_same(y)) copy_into(y, out);
}

}  // namespace

void softmax(const Tensor& x, int64_t dim, Tensor& y) { slices(x, {}, dim, false, y); }

void softmax_backward(const Tensor& grad, const Tensor& result, int64_t dim, Tensor& y) {
  slices(grad, result, dim, false, y);
}

void log_softmax(const Tensor& x, int64_t dim, Tensor& y) { slices(x, {}, dim, true, y); }

void log_softmax_backward(const Tensor& grad, const Tensor& result, int64_t dim, Tensor& y) {
  slices(grad, result, dim, true, y);
}

}  // namespace cpu
}  // namespace moonlet
#endif
