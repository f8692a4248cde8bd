// cuda/loops/device_std.h: what NVRTC, which has no standard library, is given in place of its
// headers: as much of them as the sources of loops use.
#pragma once

using int8_t = signed char;
using int16_t = short;
using int32_t = int;
using int64_t = long;
using uint8_t = unsigned char;
using uint16_t = unsigned short;
using uint32_t = unsigned int;
using uint64_t = unsigned long;

#define INT32_MAX 2147483647
#define INT64_MAX 9223372036854775807L
#define INT64_MIN (-INT64_MAX - 1)
#define UINT64_MAX 18446744073709551615UL
#define HUGE_VAL __builtin_bit_cast(double, 0x7ff0000000000000ULL)
#define HUGE_VALF __builtin_bit_cast(float, 0x7f800000U)
#define INFINITY HUGE_VALF
#define NAN __builtin_bit_cast(float, 0x7fc00000U)

namespace std {

template <class T>
class complex;

template <class...>
using void_t = void;
template <class A, class B>
inline constexpr bool is_same_v = false;
template <class A>
inline constexpr bool is_same_v<A, A> = true;

template <bool kHolds, class A, class B>
struct conditional {
  using type = A;
};
template <class A, class B>
struct conditional<false, A, B> {
  using type = B;
};
template <bool kHolds, class A, class B>
using conditional_t = typename conditional<kHolds, A, B>::type;

template <bool kHolds, class T = void>
struct enable_if {};
template <class T>
struct enable_if<true, T> {
  using type = T;
};
template <bool kHolds, class T = void>
using enable_if_t = typename enable_if<kHolds, T>::type;

template <class T>
inline constexpr bool is_floating_point_v = is_same_v<T, float> || is_same_v<T, double>;
template <class T>
inline constexpr bool is_integral_v = false;
#define MOONLET_STD_INTEGRAL(T) \
  template <>                   \
  inline constexpr bool is_integral_v<T> = true;
MOONLET_STD_INTEGRAL(bool)
MOONLET_STD_INTEGRAL(char)
MOONLET_STD_INTEGRAL(signed char)
MOONLET_STD_INTEGRAL(unsigned char)
MOONLET_STD_INTEGRAL(short)
MOONLET_STD_INTEGRAL(unsigned short)
MOONLET_STD_INTEGRAL(int)
MOONLET_STD_INTEGRAL(unsigned)
MOONLET_STD_INTEGRAL(long)
MOONLET_STD_INTEGRAL(unsigned long)
MOONLET_STD_INTEGRAL(long long)
MOONLET_STD_INTEGRAL(unsigned long long)
#undef MOONLET_STD_INTEGRAL
template <class T>
inline constexpr bool is_arithmetic_v = is_integral_v<T> || is_floating_point_v<T>;

template <class T>
struct numeric_limits;
template <>
struct numeric_limits<float> {
  static constexpr float infinity() { return HUGE_VALF; }
  static constexpr float quiet_NaN() { return NAN; }
};
template <>
struct numeric_limits<double> {
  static constexpr double infinity() { return HUGE_VAL; }
  static constexpr double quiet_NaN() { return __builtin_bit_cast(double, 0x7ff8000000000000ULL); }
};

__device__ inline float frexp(float x, int* exponent) { return ::frexpf(x, exponent); }
__device__ inline double frexp(double x, int* exponent) { return ::frexp(x, exponent); }
__device__ inline float ldexp(float x, int exponent) { return ::ldexpf(x, exponent); }
__device__ inline double ldexp(double x, int exponent) { return ::ldexp(x, exponent); }
using ::memcpy;

}  // namespace std
