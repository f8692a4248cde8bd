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
  } else if constexpr (asks_order<F> || chooses_by_order<F>) {
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
