// tensor/cpu/pointwise_family-inl.h: turns functors into loops and loops into kernels. A file
// generated for a family looks like this, with nothing else in it:
// clang-format off
//
//   #include "tensor/cpu/pointwise_targets.h"
//   #undef HWY_TARGET_INCLUDE
//   #define HWY_TARGET_INCLUDE "cpu_math.cpp"  // the file's own name, as the compiler finds it
//   #include "hwy/foreach_target.h"
//   #include "tensor/cpu/pointwise_family-inl.h"
//
//   #define MOONLET_POINTWISE_FAMILY(X)
//     X(exp, Exp, 1, 0, FC)
//     X(add, Add, 2, 0, FIC) ...
//   MOONLET_POINTWISE_SIMD(MOONLET_POINTWISE_FAMILY)
//   #if HWY_ONCE
//   MOONLET_POINTWISE_KERNELS(MOONLET_POINTWISE_FAMILY)
//   #endif
//
// clang-format on
// X: the op's name, its functor, how many tensors and numbers that takes, and what it computes in.
// F: float32 and float64 as vectors, per target. I: int64 and C: complex64, complex128 one value
// at a time, compiled once. S: float32 and float64 so, too, for functors that have no vector form
// and take long.
#if defined(MOONLET_TENSOR_CPU_POINTWISE_FAMILY_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MOONLET_TENSOR_CPU_POINTWISE_FAMILY_INL_H_
#undef MOONLET_TENSOR_CPU_POINTWISE_FAMILY_INL_H_
#else
#define MOONLET_TENSOR_CPU_POINTWISE_FAMILY_INL_H_
#endif

#include <algorithm>
#include <complex>
#include <cstdint>
#include <cstring>
#include <utility>

#include "hwy/highway.h"
#include "tensor/cpu/pointwise.h"
#include "tensor/cpu/simd-inl.h"
#include "tensor/functors-inl.h"
#include "tensor/interrupt.h"

HWY_BEFORE_NAMESPACE();
namespace moonlet {
namespace HWY_NAMESPACE {

template <class F, class T, size_t... I, size_t... P>
HWY_INLINE Vec<T> apply_at(const T* const* in, size_t i, const Vec<T>* params,
                           std::index_sequence<I...>, std::index_sequence<P...>) {
  return F()(vec<T>(hn::LoadU(Tag<T>(), in[I] + i))..., params[P]...);
}

// The last n elements from i, fewer than a vector has, go through full vectors as well, so that a
// value does not depend on its place.
template <class F, class T, size_t... I, size_t... P>
HWY_INLINE void apply_rest(const T* const* in, T* to, size_t i, size_t n, const Vec<T>* params,
                           std::index_sequence<I...> inputs, std::index_sequence<P...> scalars) {
  const Tag<T> d;
#if HWY_TARGET <= HWY_AVX2
  // Lanes outside the mask touch no memory.
  (void)inputs, (void)scalars;
  const auto mask = hn::FirstN(d, n);
  const Vec<T> y = F()(vec<T>(hn::MaskedLoad(mask, d, in[I] + i))..., params[P]...);
  hn::BlendedStore(y.v, mask, d, to + i);
#else
  constexpr size_t kLanes = HWY_MAX_BYTES / sizeof(T);
  constexpr size_t kIn = sizeof...(I);
  HWY_ALIGN T rest[kIn + 1][kLanes] = {};
  const T* padded[kIn];
  for (size_t k = 0; k < kIn; ++k) {
    std::memcpy(rest[k], in[k] + i, n * sizeof(T));
    padded[k] = rest[k];
  }
  hn::Store(apply_at<F, T>(padded, 0, params, inputs, scalars).v, d, rest[kIn]);
  std::memcpy(to + i, rest[kIn], n * sizeof(T));
#endif
}

// The loop of functor F over kIn inputs and kParams parameters in lanes of T.
template <class F, class T, int kIn, int kParams>
void simd_loop(const void* const* in, void* out, size_t n, const Scalar* params) {
  constexpr auto inputs = std::make_index_sequence<kIn>();
  constexpr auto scalars = std::make_index_sequence<kParams>();
  const Tag<T> d;
  const size_t lanes = hn::Lanes(d);
  const T* from[kIn];
  for (int k = 0; k < kIn; ++k) from[k] = static_cast<const T*>(in[k]);
  T* to = static_cast<T*>(out);
  Vec<T> values[kParams + 1];
  for (int k = 0; k < kParams; ++k) values[k] = vec<T>(hn::Set(d, params[k].to<T>()));
  size_t i = 0;
  for (; i + lanes <= n; i += lanes)
    hn::StoreU(apply_at<F, T>(from, i, values, inputs, scalars).v, d, to + i);
  if (i < n) apply_rest<F, T>(from, to, i, n - i, values, inputs, scalars);
}

// The same one value at a time.
template <class F, class T, size_t... I, size_t... P>
void scalar_loop_of(const void* const* in, void* out, size_t n, const Scalar* params,
                    std::index_sequence<I...>, std::index_sequence<P...>) {
  const T* const from[] = {static_cast<const T*>(in[I])...};
  const T values[] = {params[P].template to<T>()..., T()};
  (void)values;
  T* to = static_cast<T*>(out);
  for (size_t i = 0; i < n; ++i) to[i] = F()(from[I][i]..., values[P]...);
}
template <class F, class T, int kIn, int kParams>
void scalar_loop(const void* const* in, void* out, size_t n, const Scalar* params) {
  scalar_loop_of<F, T>(in, out, n, params, std::make_index_sequence<kIn>(),
                       std::make_index_sequence<kParams>());
}

// The same for functors of which a block of elements may take seconds.
template <class F, class T, int kIn, int kParams>
void slow_loop(const void* const* in, void* out, size_t n, const Scalar* params) {
  constexpr size_t kBlock = 4096;
  for (size_t at = 0; at < n; at += kBlock) {
    stop_if_requested();
    const void* from[kIn];
    for (int k = 0; k < kIn; ++k) from[k] = static_cast<const T*>(in[k]) + at;
    scalar_loop<F, T, kIn, kParams>(from, static_cast<T*>(out) + at, std::min(kBlock, n - at),
                                    params);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace moonlet
HWY_AFTER_NAMESPACE();

#endif  // toggle

#ifndef MOONLET_POINTWISE_SIMD
// Two loops for each op, float32 then float64, in the family's order; null where it has none.
#define MOONLET_SIMD_F(f, n, p) simd_loop<f, float, n, p>, simd_loop<f, double, n, p>,
#define MOONLET_SIMD_FI MOONLET_SIMD_F
#define MOONLET_SIMD_FC MOONLET_SIMD_F
#define MOONLET_SIMD_FIC MOONLET_SIMD_F
#define MOONLET_SIMD_I(f, n, p) nullptr, nullptr,
#define MOONLET_SIMD_C MOONLET_SIMD_I
#define MOONLET_SIMD_IC MOONLET_SIMD_I
#define MOONLET_SIMD_S MOONLET_SIMD_I
#define MOONLET_SIMD_ROW(op, f, n, p, kinds) MOONLET_SIMD_##kinds(f, n, p)

#define MOONLET_POINTWISE_SIMD(FAMILY)                                        \
  HWY_BEFORE_NAMESPACE();                                                     \
  namespace moonlet {                                                         \
  namespace HWY_NAMESPACE {                                                   \
  namespace {                                                                 \
  const cpu::PointwiseLoop* family_loops() {                                  \
    static constexpr cpu::PointwiseLoop loops[] = {FAMILY(MOONLET_SIMD_ROW)}; \
    return loops;                                                             \
  }                                                                           \
  }                                                                           \
  }                                                                           \
  }                                                                           \
  HWY_AFTER_NAMESPACE();

// All loops of an op: float32, float64, int64, complex64, complex128.
#define MOONLET_BEST_LOOPS(op) best_loops()[2 * k_##op], best_loops()[2 * k_##op + 1]
#define MOONLET_FLOAT_F(op, f, n, p) MOONLET_BEST_LOOPS(op)
#define MOONLET_FLOAT_I MOONLET_FLOAT_F
#define MOONLET_FLOAT_C MOONLET_FLOAT_F
#define MOONLET_FLOAT_FI MOONLET_FLOAT_F
#define MOONLET_FLOAT_FC MOONLET_FLOAT_F
#define MOONLET_FLOAT_IC MOONLET_FLOAT_F
#define MOONLET_FLOAT_FIC MOONLET_FLOAT_F
#define MOONLET_FLOAT_S(op, f, n, p)                       \
  HWY_NAMESPACE::slow_loop<HWY_NAMESPACE::f, float, n, p>, \
      HWY_NAMESPACE::slow_loop<HWY_NAMESPACE::f, double, n, p>
#define MOONLET_SCALAR_F(f, n, p) nullptr, nullptr, nullptr
#define MOONLET_SCALAR_S MOONLET_SCALAR_F
#define MOONLET_SCALAR_I(f, n, p) \
  HWY_NAMESPACE::scalar_loop<HWY_NAMESPACE::f, int64_t, n, p>, nullptr, nullptr
#define MOONLET_SCALAR_C(f, n, p)                                         \
  nullptr, HWY_NAMESPACE::scalar_loop<HWY_NAMESPACE::f, complex64, n, p>, \
      HWY_NAMESPACE::scalar_loop<HWY_NAMESPACE::f, complex128, n, p>
#define MOONLET_SCALAR_IC(f, n, p)                                   \
  HWY_NAMESPACE::scalar_loop<HWY_NAMESPACE::f, int64_t, n, p>,       \
      HWY_NAMESPACE::scalar_loop<HWY_NAMESPACE::f, complex64, n, p>, \
      HWY_NAMESPACE::scalar_loop<HWY_NAMESPACE::f, complex128, n, p>
#define MOONLET_SCALAR_FI MOONLET_SCALAR_I
#define MOONLET_SCALAR_FC MOONLET_SCALAR_C
#define MOONLET_SCALAR_FIC MOONLET_SCALAR_IC

#define MOONLET_INDEX_ROW(op, f, n, p, kinds) k_##op,
#define MOONLET_KERNEL_ROW(op, f, n, p, kinds)                               \
  void op(const PointwisePlan& plan) {                                       \
    static const PointwiseLoops loops = {MOONLET_FLOAT_##kinds(op, f, n, p), \
                                         MOONLET_SCALAR_##kinds(f, n, p)};   \
    run_loops(plan, loops);                                                  \
  }

#define MOONLET_POINTWISE_KERNELS(FAMILY)                                            \
  namespace moonlet {                                                                \
  namespace {                                                                        \
  HWY_EXPORT(family_loops);                                                          \
  }                                                                                  \
  namespace cpu {                                                                    \
  namespace {                                                                        \
  enum : int { FAMILY(MOONLET_INDEX_ROW) };                                          \
  const PointwiseLoop* best_loops() { return HWY_DYNAMIC_DISPATCH(family_loops)(); } \
  }                                                                                  \
  FAMILY(MOONLET_KERNEL_ROW)                                                         \
  }                                                                                  \
  }
#endif
