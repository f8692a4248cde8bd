// tensor/cpu/pointwise/pointwise_family-inl.h: turns functors into loops and loops into kernels. A
// file generated for a family looks like this, with nothing else in it:
// clang-format off
//
//   #include "tensor/cpu/pointwise/pointwise_targets.h"
//   #undef HWY_TARGET_INCLUDE
//   #define HWY_TARGET_INCLUDE "cpu_math.cpp"  // the file's own name, as the compiler finds it
//   #include "hwy/foreach_target.h"
//   #include "tensor/cpu/pointwise/pointwise_family-inl.h"
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
// F: float32 and float64 as vectors. I: int64 and C: complex64, complex128 one value at a time, of
// which the compiler makes vectors where the functor has no branches, and small integers as they
// are where small_integers-inl.h names the functor. S: as F, for functors that take long. H: 16-bit
// floats in one pass. A functor may have other forms:
// - of_parts(real, imaginary), in vectors, where the result for complex numbers is real;
// - of_pairs(x, ...), in vectors of real and imaginary parts in turn, where it only moves parts and
//   changes signs;
// - of_bits(x, ...), of 16-bit floats as uint16_t, where it does no more than change signs;
// - of_group(x, ..., to), of kGroup integers at once, which are faster together;
// - kInterleaves: the result's parts are the two inputs, which the loop may be given as they are.
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
#include "tensor/cpu/common/thresholds.h"
#include "tensor/cpu/pointwise/pointwise.h"
#include "tensor/cpu/pointwise/small_integers-inl.h"
#include "tensor/cpu/simd/simd-inl.h"
#include "tensor/functors/functors-inl.h"
#include "tensor/runtime/interrupt.h"

HWY_BEFORE_NAMESPACE();
namespace moonlet {
namespace HWY_NAMESPACE {

template <class F, class T, size_t... I, size_t... P>
HWY_INLINE Vec<T> apply_at(const T* const* in, size_t i, const Vec<T>* params,
                           std::index_sequence<I...>, std::index_sequence<P...>) {
  return F()(vec<T>(hn::LoadU(Tag<T>(), in[I] + i))..., params[P]...);
}

// The last n elements from i, fewer than a vector has, go through full vectors as well, so that a
// value does not depend on its position.
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

// The same for functors of which a block of elements may take seconds.
template <class F, class T, int kIn, int kParams>
void slow_loop(const void* const* in, void* out, size_t n, const Scalar* params) {
  constexpr size_t kBlock = thresholds::pointwise::kSlowBlock;
  for (size_t at = 0; at < n; at += kBlock) {
    stop_if_requested();
    const void* from[kIn];
    for (int k = 0; k < kIn; ++k) from[k] = static_cast<const T*>(in[k]) + at;
    simd_loop<F, T, kIn, kParams>(from, static_cast<T*>(out) + at, std::min(kBlock, n - at),
                                  params);
  }
}

// The loop of single values. That `out` may be an input keeps no value from being computed beside
// the next one, which the compiler cannot know.
template <class F, class T, size_t... I, size_t... P>
void scalar_loop_of(const void* const* in, void* out, size_t n, const Scalar* params,
                    std::index_sequence<I...>, std::index_sequence<P...>) {
  const T* const from[] = {static_cast<const T*>(in[I])...};
  const T values[] = {params[P].template to<T>()..., T()};
  (void)values;
  T* to = static_cast<T*>(out);
#if HWY_COMPILER_GCC_ACTUAL
#pragma GCC ivdep
#endif
  for (size_t i = 0; i < n; ++i) to[i] = F()(from[I][i]..., values[P]...);
}
template <class F, class T, int kIn, int kParams>
void scalar_loop(const void* const* in, void* out, size_t n, const Scalar* params) {
  scalar_loop_of<F, T>(in, out, n, params, std::make_index_sequence<kIn>(),
                       std::make_index_sequence<kParams>());
}

// The loop of integers of which a functor takes a group at once.
template <class F, size_t... I>
void group_loop_of(const void* const* in, void* out, size_t n, std::index_sequence<I...>) {
  const int64_t* const from[] = {static_cast<const int64_t*>(in[I])...};
  int64_t* to = static_cast<int64_t*>(out);
  size_t i = 0;
  for (; i + F::kGroup <= n; i += F::kGroup) F::of_group((from[I] + i)..., to + i);
  for (; i < n; ++i) to[i] = F()(from[I][i]...);
}
template <class F, int kIn>
void group_loop(const void* const* in, void* out, size_t n, const Scalar*) {
  group_loop_of<F>(in, out, n, std::make_index_sequence<kIn>());
}

// Complex numbers of their real and imaginary parts.
template <class T>
void interleave_loop(const void* const* in, void* out, size_t n, const Scalar*) {
  const Tag<T> d;
  const size_t lanes = hn::Lanes(d);
  const T *real = static_cast<const T*>(in[0]), *imaginary = static_cast<const T*>(in[1]);
  T* to = static_cast<T*>(out);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes)
    hn::StoreInterleaved2(hn::LoadU(d, real + i), hn::LoadU(d, imaginary + i), d, to + 2 * i);
  for (; i < n; ++i) to[2 * i] = real[i], to[2 * i + 1] = imaginary[i];
}

// Real results of complex numbers, as complex ones.
template <class F, class T>
void parts_loop(const void* const* in, void* out, size_t n, const Scalar*) {
  const Tag<T> d;
  const size_t lanes = hn::Lanes(d);
  const T* from = static_cast<const T*>(in[0]);
  T* to = static_cast<T*>(out);
  const auto step = [&](const T* x, T* y) {
    Vec<T> real, imaginary;
    hn::LoadInterleaved2(d, x, real.v, imaginary.v);
    hn::StoreInterleaved2(F::of_parts(real, imaginary).v, hn::Zero(d), d, y);
  };
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) step(from + 2 * i, to + 2 * i);
  if (i == n) return;
  HWY_ALIGN T rest[2 * HWY_MAX_BYTES / sizeof(T)] = {};
  std::memcpy(rest, from + 2 * i, 2 * (n - i) * sizeof(T));
  step(rest, rest);
  std::memcpy(to + 2 * i, rest, 2 * (n - i) * sizeof(T));
}

// The lanes at even positions of one vector and those at odd ones of another.
template <class T>
HWY_INLINE Vec<T> even_and_odd(Vec<T> even, Vec<T> odd) {
  return vec<T>(hn::OddEven(odd.v, even.v));
}
// The lanes at even positions, and each beside itself.
template <class T>
HWY_INLINE Vec<T> even_twice(Vec<T> x) {
  return vec<T>(hn::DupEven(x.v));
}

// A functor's form for pairs as a functor.
template <class F>
struct OnPairs {
  template <class... V>
  HWY_INLINE auto operator()(V... x) const {
    return F::of_pairs(x...);
  }
};
template <class F, class T, int kIn>
void pairs_loop(const void* const* in, void* out, size_t n, const Scalar* params) {
  simd_loop<OnPairs<F>, T, kIn, 0>(in, out, 2 * n, params);
}

#if HWY_TARGET <= HWY_AVX2
// 16-bit floats as two vectors of float32: those at even positions and those at odd ones, which are
// halves of 32 bits.
struct BFloat16Pair {
  static HWY_INLINE void load(const uint16_t* x, Vec<float>& even, Vec<float>& odd) {
    const Tag<uint32_t> d;
    const auto bits = hn::BitCast(d, hn::LoadU(Tag<uint16_t>(), x));
    even.v = hn::BitCast(Tag<float>(), hn::ShiftLeft<16>(bits));
    odd.v = hn::BitCast(Tag<float>(), hn::And(bits, hn::Set(d, 0xffff0000u)));
  }
  static HWY_INLINE void store(Vec<float> even, Vec<float> odd, uint16_t* to) {
    const Tag<uint32_t> d;
    const auto high = hn::And(rounded(odd), hn::Set(d, 0xffff0000u));
    const auto bits = hn::Or(hn::ShiftRight<16>(rounded(even)), high);
    hn::StoreU(hn::BitCast(Tag<uint16_t>(), bits), Tag<uint16_t>(), to);
  }

 private:
  // The bits rounded to nearest even in the upper half; NaN stays NaN there.
  static HWY_INLINE hn::Vec<Tag<uint32_t>> rounded(Vec<float> x) {
    const Tag<uint32_t> d;
    const auto bits = hn::BitCast(d, x.v);
    const auto last = hn::And(hn::ShiftRight<16>(bits), hn::Set(d, 1));
    const auto up = hn::Add(hn::Add(bits, hn::Set(d, 0x7fff)), last);
    const auto nan = hn::RebindMask(d, hn::IsNaN(x.v));
    return hn::IfThenElse(nan, hn::Or(bits, hn::Set(d, 0x400000)), up);
  }
};
// The same of float16, one half of the elements after the other.
struct Float16Pair {
  using Tag16 = hn::Rebind<hwy::float16_t, Tag<float>>;
  static HWY_INLINE void load(const uint16_t* x, Vec<float>& first, Vec<float>& second) {
    const auto* from = reinterpret_cast<const hwy::float16_t*>(x);
    const Tag<float> d;
    first.v = hn::PromoteTo(d, hn::LoadU(Tag16(), from));
    second.v = hn::PromoteTo(d, hn::LoadU(Tag16(), from + hn::Lanes(d)));
  }
  static HWY_INLINE void store(Vec<float> first, Vec<float> second, uint16_t* x) {
    auto* to = reinterpret_cast<hwy::float16_t*>(x);
    hn::StoreU(hn::DemoteTo(Tag16(), first.v), Tag16(), to);
    hn::StoreU(hn::DemoteTo(Tag16(), second.v), Tag16(), to + hn::Lanes(Tag<float>()));
  }
};

template <class Pair, class F, size_t... I, class... Numbers>
HWY_INLINE void apply_pair(const uint16_t* const* in, uint16_t* to, size_t i,
                           std::index_sequence<I...>, Numbers... numbers) {
  Vec<float> first[sizeof...(I)], second[sizeof...(I)];
  (Pair::load(in[I] + i, first[I], second[I]), ...);
  Pair::store(F()(first[I]..., numbers...), F()(second[I]..., numbers...), to + i);
}

// The loop of functor F, computed in float32, over the kTensors first inputs, 16-bit floats, and
// numbers: float32 ones as the inputs that are left, and the parameters.
template <class Pair, class F, int kTensors, size_t... N, size_t... P>
HWY_INLINE void pair_loop_of(const void* const* in, void* out, size_t n, const Scalar* params,
                             std::index_sequence<N...>, std::index_sequence<P...>) {
  const auto splat = [](float value) { return vec<float>(hn::Set(Tag<float>(), value)); };
  const auto apply = [&](const uint16_t* const* from, uint16_t* to, size_t i) HWY_ATTR {
    apply_pair<Pair, F>(from, to, i, std::make_index_sequence<kTensors>(),
                        splat(*static_cast<const float*>(in[kTensors + N]))...,
                        splat(params[P].template to<float>())...);
  };
  const size_t width = hn::Lanes(Tag<uint16_t>());
  const uint16_t* from[kTensors];
  for (int k = 0; k < kTensors; ++k) from[k] = static_cast<const uint16_t*>(in[k]);
  uint16_t* to = static_cast<uint16_t*>(out);
  size_t i = 0;
  for (; i + width <= n; i += width) apply(from, to, i);
  if (i == n) return;
  HWY_ALIGN uint16_t rest[kTensors + 1][HWY_MAX_BYTES / sizeof(uint16_t)] = {};
  for (int k = 0; k < kTensors; ++k) {
    std::memcpy(rest[k], from[k] + i, (n - i) * sizeof(uint16_t));
    from[k] = rest[k];
  }
  apply(from, rest[kTensors], 0);
  std::memcpy(to + i, rest[kTensors], (n - i) * sizeof(uint16_t));
}
template <class Pair, class F, int kTensors, int kNumbers, int kParams>
void pair_loop(const void* const* in, void* out, size_t n, const Scalar* params) {
  pair_loop_of<Pair, F, kTensors>(in, out, n, params, std::make_index_sequence<kNumbers>(),
                                  std::make_index_sequence<kParams>());
}
#endif

// A functor's form for bits as a functor.
template <class F>
struct OnBits {
  template <class... B>
  HWY_INLINE uint16_t operator()(B... bits) const {
    return F::of_bits(bits...);
  }
};

constexpr bool has_kind(const char* kinds, char kind) {
  for (; *kinds; ++kinds)
    if (*kinds == kind) return true;
  return false;
}

// The loops of functor F for the kinds in a string, whose letters the head of this file explains.
template <class F, int kIn, int kParams, class Kinds>
constexpr cpu::PointwiseLoops loops_of(Kinds kinds) {
  cpu::PointwiseLoops loops = {};
  if constexpr (has_kind(kinds(), 'F')) {
    loops.f32 = simd_loop<F, float, kIn, kParams>;
    loops.f64 = simd_loop<F, double, kIn, kParams>;
  }
  if constexpr (has_kind(kinds(), 'S')) {
    loops.f32 = slow_loop<F, float, kIn, kParams>;
    loops.f64 = slow_loop<F, double, kIn, kParams>;
  }
  if constexpr (has_kind(kinds(), 'I')) {
    if constexpr (requires { F::kGroup; })
      loops.i64 = group_loop<F, kIn>;
    else
      loops.i64 = scalar_loop<F, int64_t, kIn, kParams>;
    add_small_integers<F, kIn, kParams>(loops);
  }
  if constexpr (requires { F::kInterleaves; }) {
    loops.c64_of_parts = interleave_loop<float>;
    loops.c128_of_parts = interleave_loop<double>;
  }
  if constexpr (has_kind(kinds(), 'C')) {
    constexpr bool has_pairs = requires(Vec<float> v) { F::of_pairs(v); }
    || requires(Vec<float> v) { F::of_pairs(v, v); };
    if constexpr (requires(Vec<float> v) { F::of_parts(v, v); }) {
      loops.c64 = parts_loop<F, float>;
      loops.c128 = parts_loop<F, double>;
      // A vector of one lane, as processors without AVX2 get, holds no pair.
    } else if constexpr (has_pairs && HWY_TARGET != HWY_SCALAR) {
      loops.c64 = pairs_loop<F, float, kIn>;
      loops.c128 = pairs_loop<F, double, kIn>;
    } else {
      loops.c64 = scalar_loop<F, complex64, kIn, kParams>;
      loops.c128 = scalar_loop<F, complex128, kIn, kParams>;
    }
  }
  constexpr bool has_bits = requires(uint16_t b) { F::of_bits(b); }
  || requires(uint16_t b) { F::of_bits(b, b); };
  if constexpr (has_bits) {
    loops.f16 = loops.bf16 = scalar_loop<OnBits<F>, uint16_t, kIn, kParams>;
  } else if constexpr (has_kind(kinds(), 'H')) {
#if HWY_TARGET <= HWY_AVX2
    loops.f16 = pair_loop<Float16Pair, F, kIn, 0, kParams>;
    loops.bf16 = pair_loop<BFloat16Pair, F, kIn, 0, kParams>;
    if constexpr (kIn > 1) {
      loops.f16_number = pair_loop<Float16Pair, F, kIn - 1, 1, kParams>;
      loops.bf16_number = pair_loop<BFloat16Pair, F, kIn - 1, 1, kParams>;
    }
#endif
  }
  return loops;
}

}  // namespace HWY_NAMESPACE
}  // namespace moonlet
HWY_AFTER_NAMESPACE();

#endif  // toggle

#ifndef MOONLET_POINTWISE_SIMD
#define MOONLET_LOOPS_ROW(op, f, n, p, kinds) loops_of<f, n, p>([] { return #kinds; }),

// The loops of each op, in the family's order.
#define MOONLET_POINTWISE_SIMD(FAMILY)                                          \
  HWY_BEFORE_NAMESPACE();                                                       \
  namespace moonlet {                                                           \
  namespace HWY_NAMESPACE {                                                     \
  namespace {                                                                   \
  const cpu::PointwiseLoops* family_loops() {                                   \
    static constexpr cpu::PointwiseLoops loops[] = {FAMILY(MOONLET_LOOPS_ROW)}; \
    return loops;                                                               \
  }                                                                             \
  }                                                                             \
  }                                                                             \
  }                                                                             \
  HWY_AFTER_NAMESPACE();

#define MOONLET_INDEX_ROW(op, f, n, p, kinds) k_##op,
#define MOONLET_KERNEL_ROW(op, f, n, p, kinds)                 \
  void op(const PointwisePlan& plan) {                         \
    static const PointwiseLoops& loops = best_loops()[k_##op]; \
    run_loops(plan, loops);                                    \
  }

#define MOONLET_POINTWISE_KERNELS(FAMILY)                                             \
  namespace moonlet {                                                                 \
  namespace {                                                                         \
  HWY_EXPORT(family_loops);                                                           \
  }                                                                                   \
  namespace cpu {                                                                     \
  namespace {                                                                         \
  enum : int { FAMILY(MOONLET_INDEX_ROW) };                                           \
  const PointwiseLoops* best_loops() { return HWY_DYNAMIC_DISPATCH(family_loops)(); } \
  }                                                                                   \
  FAMILY(MOONLET_KERNEL_ROW)                                                          \
  }                                                                                   \
  }
#endif
