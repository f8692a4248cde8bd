// tensor/cpu/pointwise/small_integers-inl.h: loops over integers of 8, 16 and 32 bits as they lie
// in memory, for functors that give the same of them as of int64. Included by
// pointwise_family-inl.h, once per Highway target.
#if defined(MOONLET_TENSOR_CPU_SMALL_INTEGERS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MOONLET_TENSOR_CPU_SMALL_INTEGERS_INL_H_
#undef MOONLET_TENSOR_CPU_SMALL_INTEGERS_INL_H_
#else
#define MOONLET_TENSOR_CPU_SMALL_INTEGERS_INL_H_
#endif

#include <cstdint>
#include <type_traits>
#include <utility>

#include "hwy/highway.h"
#include "tensor/core/scalar.h"
#include "tensor/cpu/pointwise/pointwise.h"
#include "tensor/functors/functors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace moonlet {
namespace HWY_NAMESPACE {

template <class F, class... Fs>
inline constexpr bool is_one_of = (std::is_same_v<F, Fs> || ...);

// Their results of bools, as 1 and 0, are 1 and 0.
template <class F>
inline constexpr bool keeps_bits = is_one_of<F, BitwiseAnd, BitwiseOr, BitwiseXor>;
// The low bits of their results are made of the low bits of the inputs.
template <class F>
inline constexpr bool takes_low_bits =
    keeps_bits<F> || is_one_of<F, Add, Sub, AddScaled, SubScaled, Mul, Square, Addcmul>;
template <class F>
inline constexpr bool takes_own_bits = is_one_of<F, Neg, BitwiseInvert>;
// They ask for no more than whether their inputs are the same or 0; the first of these give 1 or 0.
template <class F>
inline constexpr bool asks_equality =
    is_one_of<F, Eq, Ne, LogicalAnd, LogicalOr, LogicalXor, LogicalNot>;
template <class F>
inline constexpr bool chooses_by_mask = is_one_of<F, Where, MaskedFill>;
// They ask for the order of their inputs; the first of these give 1 or 0, the others an input or a
// number of every type.
template <class F>
inline constexpr bool asks_order = is_one_of<F, Lt, Le, Gt, Ge>;
template <class F>
inline constexpr bool chooses_by_order =
    is_one_of<F, Maximum, Minimum, Fmax, Fmin, ClampMin, ClampMax, ClampBetween, Relu, Relu6,
              Hardtanh, Threshold, Sign, Abs>;

// Targets without shifts and conversions by vectors keep those of int64.
template <class F>
inline constexpr bool shifts =
    (HWY_TARGET <= HWY_AVX2) && is_one_of<F, BitwiseLeftShift, BitwiseRightShift>;
template <class F>
inline constexpr bool divides =
    (HWY_TARGET <= HWY_AVX2) && is_one_of<F, FloorDivide, TruncDivide, Remainder, Fmod>;

// The result of functor F, which divides, for y other than 0, by a division of floats that hold T:
// its quotient, cut, is that of integers, as none of theirs is as near to a whole number from below
// as a float's last digit. Without branches, which would keep the compiler from making vectors.
template <class F, class T>
HWY_INLINE T divided(T x, T y) {
  using Float = std::conditional_t<sizeof(T) == 4, double, float>;
  Float quotient = static_cast<Float>(x) / static_cast<Float>(y);
  // That of the least integer and -1 wraps around.
  if constexpr (std::is_same_v<T, int32_t>)
    quotient -= 4294967296.0 * static_cast<double>(quotient >= 2147483648.0);
  const auto cut = static_cast<int32_t>(quotient), by = static_cast<int32_t>(y);
  if constexpr (std::is_same_v<F, TruncDivide>) return static_cast<T>(cut);
  const auto rest = static_cast<int32_t>(static_cast<uint32_t>(x) -
                                         static_cast<uint32_t>(cut) * static_cast<uint32_t>(by));
  if constexpr (std::is_same_v<F, Fmod>) return static_cast<T>(rest);
  // All bits where the signs differ.
  const int32_t differ = ((rest ^ by) >> 31) & -static_cast<int32_t>(rest != 0);
  if constexpr (std::is_same_v<F, FloorDivide>)
    return static_cast<T>(static_cast<uint32_t>(cut) + static_cast<uint32_t>(differ));
  return static_cast<T>(static_cast<uint32_t>(rest) + static_cast<uint32_t>(by & differ));
}
template <class F, class T, int kIn, int kParams>
void divide_loop(const void* const* in, void* out, size_t n, const Scalar*) {
  static_assert(kIn == 2 && kParams == 0);
  const T *x = static_cast<const T*>(in[0]), *y = static_cast<const T*>(in[1]);
  T* to = static_cast<T*>(out);
  int32_t zeros = 0;
#if HWY_COMPILER_GCC_ACTUAL
#pragma GCC ivdep
#endif
  for (size_t i = 0; i < n; ++i) {
    const T by = y[i], zero = by == 0;
    zeros |= zero;
    to[i] = divided<F, T>(x[i], static_cast<T>(by | zero));
  }
  if (zeros != 0) note_zero_division();
}

// The loop of functor F over elements of T, computed in C, of which T keeps the low bits.
template <class F, class T, class C, size_t... I, size_t... P>
void small_loop_of(const void* const* in, void* out, size_t n, const Scalar* params,
                   std::index_sequence<I...>, std::index_sequence<P...>) {
  const T* const from[] = {static_cast<const T*>(in[I])...};
  const C values[] = {static_cast<C>(params[P].template to<T>())..., C()};
  (void)values;
  T* to = static_cast<T*>(out);
#if HWY_COMPILER_GCC_ACTUAL
#pragma GCC ivdep
#endif
  for (size_t i = 0; i < n; ++i)
    to[i] = static_cast<T>(F()(static_cast<C>(from[I][i])..., values[P]...));
}
template <class F, class T, class C, int kIn, int kParams>
void small_loop(const void* const* in, void* out, size_t n, const Scalar* params) {
  small_loop_of<F, T, C>(in, out, n, params, std::make_index_sequence<kIn>(),
                         std::make_index_sequence<kParams>());
}

// Adds the loops of functor F over small integers, where it has any.
template <class F, int kIn, int kParams>
constexpr void add_small_integers(cpu::PointwiseLoops& loops) {
  loops.gives_truth = asks_equality<F> || asks_order<F>;
  loops.takes_bools =
      loops.gives_truth || keeps_bits<F> || chooses_by_mask<F> || is_one_of<F, Maximum, Minimum>;
  if constexpr (takes_low_bits<F>) {
    loops.i8 = loops.u8 = small_loop<F, uint8_t, uint32_t, kIn, kParams>;
    loops.i16 = small_loop<F, uint16_t, uint32_t, kIn, kParams>;
    loops.i32 = small_loop<F, uint32_t, uint32_t, kIn, kParams>;
  } else if constexpr (takes_own_bits<F> || asks_equality<F> || chooses_by_mask<F>) {
    loops.i8 = loops.u8 = small_loop<F, uint8_t, uint8_t, kIn, kParams>;
    loops.i16 = small_loop<F, uint16_t, uint16_t, kIn, kParams>;
    loops.i32 = small_loop<F, uint32_t, uint32_t, kIn, kParams>;
  } else if constexpr (divides<F>) {
    loops.i8 = divide_loop<F, int8_t, kIn, kParams>;
    loops.u8 = divide_loop<F, uint8_t, kIn, kParams>;
    loops.i16 = divide_loop<F, int16_t, kIn, kParams>;
    loops.i32 = divide_loop<F, int32_t, kIn, kParams>;
  } else if constexpr (shifts<F> || asks_order<F> || chooses_by_order<F>) {
    loops.i8 = small_loop<F, int8_t, int8_t, kIn, kParams>;
    loops.u8 = small_loop<F, uint8_t, uint8_t, kIn, kParams>;
    loops.i16 = small_loop<F, int16_t, int16_t, kIn, kParams>;
    loops.i32 = small_loop<F, int32_t, int32_t, kIn, kParams>;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace moonlet
HWY_AFTER_NAMESPACE();

#endif  // toggle
