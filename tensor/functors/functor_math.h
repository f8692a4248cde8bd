// tensor/functors/functor_math.h: the vocabulary that functors are written in, for single values:
// float, double, int64_t and (on the host) std::complex. simd-inl.h gives the same names for
// vectors. The v in front keeps them apart from the C library's.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "tensor/core/half.h"  // MOONLET_HD

#if !defined(__CUDACC__) && !defined(MOONLET_CUDA_EMULATED)
#include <complex>
#define MOONLET_HOST_FUNCTORS 1
#else
#define MOONLET_HOST_FUNCTORS 0
#endif

namespace moonlet {

#if MOONLET_HOST_FUNCTORS
// Set when an integer division by zero was met; the engine turns it into an error.
inline thread_local bool divided_by_zero = false;
inline void note_zero_division() { divided_by_zero = true; }
#else
MOONLET_HD void note_zero_division() {}
#endif

namespace fn {

// Whether a functor's V is a complex number: std::complex here, the device's own type on CUDA.
template <class V>
inline constexpr bool is_complex_value = false;
#if MOONLET_HOST_FUNCTORS
template <class T>
inline constexpr bool is_complex_value<std::complex<T>> = true;
template <class T>
T real_part(std::complex<T> z) {
  return z.real();
}
template <class T>
T imag_part(std::complex<T> z) {
  return z.imag();
}
#endif

// Whether a functor's V holds float32.
template <class V, class = void>
struct LaneOf {
  using Type = V;
};
template <class V>
struct LaneOf<V, std::void_t<typename V::Lane>> {
  using Type = typename V::Lane;
};
template <class V>
inline constexpr bool is_float32 = std::is_same_v<typename LaneOf<V>::Type, float>;

// f, which takes float64, of float32 or float64; of single values one by one, here as for vectors.
template <class F, class T, class... Rest>
MOONLET_HD T in_double(F f, T x, Rest... rest) {
  return static_cast<T>(f(static_cast<double>(x), static_cast<double>(rest)...));
}
template <class T, class F, class... Rest>
MOONLET_HD T each_lane(F f, T x, Rest... rest) {
  return f(x, rest...);
}

// select(mask, a, b): a where the mask holds.
template <class T>
MOONLET_HD T select(bool mask, T a, T b) {
  return mask ? a : b;
}
template <class T>
MOONLET_HD bool any(T mask) {
  return mask;
}

#define MOONLET_UNARY(name, f32, f64)               \
  MOONLET_HD float name(float x) { return f32(x); } \
  MOONLET_HD double name(double x) { return f64(x); }
MOONLET_UNARY(vabs, fabsf, fabs)
MOONLET_UNARY(vsqrt, sqrtf, sqrt)
MOONLET_UNARY(vfloor, floorf, floor)
MOONLET_UNARY(vceil, ceilf, ceil)
MOONLET_UNARY(vround, rintf, rint)
MOONLET_UNARY(vtrunc, truncf, trunc)
MOONLET_UNARY(vexp, expf, exp)
MOONLET_UNARY(vexp2, exp2f, exp2)
MOONLET_UNARY(vexpm1, expm1f, expm1)
MOONLET_UNARY(vlog, logf, log)
MOONLET_UNARY(vlog2, log2f, log2)
MOONLET_UNARY(vlog10, log10f, log10)
MOONLET_UNARY(vlog1p, log1pf, log1p)
// log(1 + x) for x from 0 to 1.
MOONLET_UNARY(vlog1p_unit, log1pf, log1p)
MOONLET_UNARY(vsin, sinf, sin)
MOONLET_UNARY(vcos, cosf, cos)
MOONLET_UNARY(vtan, tanf, tan)
MOONLET_UNARY(vasin, asinf, asin)
MOONLET_UNARY(vacos, acosf, acos)
MOONLET_UNARY(vatan, atanf, atan)
MOONLET_UNARY(vsinh, sinhf, sinh)
MOONLET_UNARY(vcosh, coshf, cosh)
MOONLET_UNARY(vtanh, tanhf, tanh)
MOONLET_UNARY(vasinh, asinhf, asinh)
MOONLET_UNARY(vacosh, acoshf, acosh)
MOONLET_UNARY(vatanh, atanhf, atanh)
MOONLET_UNARY(verf, erff, erf)
MOONLET_UNARY(verfc, erfcf, erfc)

// erfc(x + rest) for a rest that is small beside x.
template <class T>
MOONLET_HD T verfc_sum(T x, T rest) {
  return verfc(x) - T(1.12837916709551257390) * vexp(-x * x) * rest;
}

// The normal distribution function.
template <class T>
MOONLET_HD T normal_cdf(T x) {
  return T(0.5) * verfc(x * T(-0.70710678118654752440));
}
MOONLET_UNARY(vnormal_cdf, normal_cdf, normal_cdf)

// log |gamma(x)|. The C library's own function also writes a variable of the process.
MOONLET_HD double log_gamma(double x) {
#ifdef __CUDA_ARCH__
  return ::lgamma(x);
#else
  int sign;
  return ::lgamma_r(x, &sign);
#endif
}
MOONLET_UNARY(vlgamma, log_gamma, log_gamma)

#define MOONLET_BINARY(name, f32, f64)                          \
  MOONLET_HD float name(float x, float y) { return f32(x, y); } \
  MOONLET_HD double name(double x, double y) { return f64(x, y); }
MOONLET_BINARY(vpow, powf, pow)
MOONLET_BINARY(vfmod, fmodf, fmod)
MOONLET_BINARY(vatan2, atan2f, atan2)
MOONLET_BINARY(vhypot, hypotf, hypot)
MOONLET_BINARY(vcopysign, copysignf, copysign)
MOONLET_BINARY(vnextafter, nextafterf, nextafter)
#undef MOONLET_BINARY

// c[0] + c[1] x + c[2] x^2 + ..., of float32 or float64.
template <class T, size_t N>
MOONLET_HD T vpoly(const double (&c)[N], T x) {
  T y = static_cast<T>(c[N - 1]);
  for (size_t k = N - 1; k > 0; --k) y = y * x + static_cast<T>(c[k - 1]);
  return y;
}

// a * b + c, rounded once where the processor can.
MOONLET_HD float vfma(float a, float b, float c) { return fmaf(a, b, c); }
MOONLET_HD double vfma(double a, double b, double c) { return fma(a, b, c); }

// What rounding has dropped of the product a * b.
MOONLET_HD float vproduct_rest(float a, float b, float product) { return fmaf(a, b, -product); }
MOONLET_HD double vproduct_rest(double a, double b, double product) { return fma(a, b, -product); }

// x = mantissa 2^exponent with a magnitude of the mantissa in [1/2, 1); what has no digits (0,
// infinities, NaN) is its own mantissa, with exponent 0.
template <class T>
MOONLET_HD T take_apart(T x, T& exponent) {
  exponent = T(0);
  if (x == T(0) || !(vabs(x) < T(HUGE_VAL))) return x;
  int n = 0;
  const T mantissa = std::frexp(x, &n);
  exponent = static_cast<T>(n);
  return mantissa;
}
template <class T>
MOONLET_HD T mantissa_of(T x) {
  T exponent;
  return take_apart(x, exponent);
}
template <class T>
MOONLET_HD T exponent_of(T x) {
  T exponent;
  take_apart(x, exponent);
  return exponent;
}
MOONLET_UNARY(vmantissa, mantissa_of, mantissa_of)
MOONLET_UNARY(vexponent, exponent_of, exponent_of)
// 2^n for whole n.
template <class T>
MOONLET_HD T whole_power_of_two(T n) {
  // Beyond the bound of any format, and a NaN, count as the bound.
  constexpr T kBound = 4096;
  return std::ldexp(T(1), static_cast<int>(n > -kBound ? (n < kBound ? n : kBound) : -kBound));
}
MOONLET_UNARY(vpower_of_two, whole_power_of_two, whole_power_of_two)
// The power of two that x's magnitude begins with: 0 below the normal numbers, infinity for what
// has no digits.
template <class T>
MOONLET_HD T leading_power_of_two(T x) {
  using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  constexpr T kInfinity = static_cast<T>(HUGE_VAL);
  Bits bits, exponent;
  std::memcpy(&bits, &x, sizeof x);
  std::memcpy(&exponent, &kInfinity, sizeof x);
  bits &= exponent;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}
MOONLET_UNARY(vleading_power, leading_power_of_two, leading_power_of_two)
#define MOONLET_SAME(x) x
MOONLET_UNARY(vconj, MOONLET_SAME, MOONLET_SAME)
#undef MOONLET_SAME
MOONLET_HD int64_t vconj(int64_t x) { return x; }
#undef MOONLET_UNARY

template <class T>
MOONLET_HD T vmin(T x, T y) {
  return y < x ? y : x;
}
template <class T>
MOONLET_HD T vmax(T x, T y) {
  return x < y ? y : x;
}

// Integers: what has a meaning for them. Sums and products wrap around.
MOONLET_HD int64_t vabs(int64_t x) {
  return x < 0 ? static_cast<int64_t>(0 - static_cast<uint64_t>(x)) : x;
}
// Smaller ones as well: the magnitude of the least one is itself.
template <class T, class = std::enable_if_t<std::is_integral_v<T> && (sizeof(T) < 8)>>
MOONLET_HD T vabs(T x) {
  const T minus = static_cast<T>(0 - static_cast<uint32_t>(x));
  return x < T(0) ? minus : x;
}
MOONLET_HD int64_t vcopysign(int64_t x, int64_t y) { return y < 0 ? -vabs(x) : vabs(x); }
MOONLET_HD int64_t vfloor(int64_t x) { return x; }
MOONLET_HD int64_t vceil(int64_t x) { return x; }
MOONLET_HD int64_t vround(int64_t x) { return x; }
MOONLET_HD int64_t vtrunc(int64_t x) { return x; }
MOONLET_HD int64_t vadd(int64_t x, int64_t y) {
  return static_cast<int64_t>(static_cast<uint64_t>(x) + static_cast<uint64_t>(y));
}
MOONLET_HD int64_t vsub(int64_t x, int64_t y) {
  return static_cast<int64_t>(static_cast<uint64_t>(x) - static_cast<uint64_t>(y));
}
MOONLET_HD int64_t vmul(int64_t x, int64_t y) {
  return static_cast<int64_t>(static_cast<uint64_t>(x) * static_cast<uint64_t>(y));
}
template <class T>
MOONLET_HD T vadd(T x, T y) {
  return x + y;
}
template <class T>
MOONLET_HD T vsub(T x, T y) {
  return x - y;
}
template <class T>
MOONLET_HD T vmul(T x, T y) {
  return x * y;
}
// Truncated quotient and its remainder; 0 and a note when y is 0.
MOONLET_HD int64_t int_quotient(int64_t x, int64_t y) {
  if (y == 0) {
    note_zero_division();
    return 0;
  }
  return y == -1 ? vsub(0, x) : x / y;
}
MOONLET_HD int64_t vfmod(int64_t x, int64_t y) { return vsub(x, vmul(int_quotient(x, y), y)); }
MOONLET_HD int64_t vpow(int64_t x, int64_t y) {
  if (y < 0) return x == 1 ? 1 : x == -1 ? ((y & 1) ? -1 : 1) : 0;
  int64_t out = 1;
  for (; y > 0; y >>= 1) {
    if (y & 1) out = vmul(out, x);
    x = vmul(x, x);
  }
  return out;
}
// The zeros below the lowest 1 of an x that is not 0.
MOONLET_HD int trailing_zeros(uint64_t x) {
#ifdef __CUDA_ARCH__
  return __ffsll(static_cast<long long>(x)) - 1;
#else
  return std::countr_zero(x);
#endif
}
// By halving and subtracting (Stein 1967), which divides nothing; not negative, but for the least
// integer.
MOONLET_HD int64_t vgcd(int64_t x, int64_t y) {
  auto a = static_cast<uint64_t>(vabs(x)), b = static_cast<uint64_t>(vabs(y));
  if (a == 0 || b == 0) return static_cast<int64_t>(a | b);
  const int twos = trailing_zeros(a | b);
  a >>= trailing_zeros(a);
  b >>= trailing_zeros(b);
  while (a != b) {
    // Of one difference all three, so that none waits for another.
    const bool is_below = a < b;
    const uint64_t difference = a - b;
    const int zeros = trailing_zeros(difference);
    a = is_below ? a : b;
    b = (is_below ? 0 - difference : difference) >> zeros;
  }
  return static_cast<int64_t>(a << twos);
}
// The same of kGcdGroup pairs at once, whose steps do not wait for each other's.
inline constexpr int kGcdGroup = 4;
MOONLET_HD void group_gcd(const int64_t* x, const int64_t* y, int64_t* to) {
  constexpr uint64_t kTop = uint64_t{1} << 63;  // ends the zeros of 0
  uint64_t a[kGcdGroup], b[kGcdGroup], unequal = 0;
  int twos[kGcdGroup];
  for (int k = 0; k < kGcdGroup; ++k) {
    const auto first = static_cast<uint64_t>(vabs(x[k])),
               second = static_cast<uint64_t>(vabs(y[k]));
    a[k] = first == 0 ? second : first;
    b[k] = second == 0 ? first : second;
    twos[k] = trailing_zeros(a[k] | b[k] | kTop);
    a[k] >>= trailing_zeros(a[k] | kTop);
    b[k] >>= trailing_zeros(b[k] | kTop);
    unequal |= a[k] ^ b[k];
  }
  while (unequal != 0) {
    unequal = 0;
    for (int k = 0; k < kGcdGroup; ++k) {
      const bool is_below = a[k] < b[k];
      const uint64_t difference = a[k] - b[k];
      const int zeros = trailing_zeros(difference | kTop);
      const uint64_t odd = (is_below ? 0 - difference : difference) >> zeros;
      a[k] = is_below ? a[k] : b[k];
      b[k] = difference == 0 ? b[k] : odd;
      unequal |= a[k] ^ b[k];
    }
  }
  for (int k = 0; k < kGcdGroup; ++k) to[k] = static_cast<int64_t>(a[k] << twos[k]);
}
MOONLET_HD int64_t lcm_of(int64_t x, int64_t y, int64_t divisor) {
  return divisor == 0 ? 0 : vabs(vmul(int_quotient(x, divisor), y));
}
MOONLET_HD int64_t vlcm(int64_t x, int64_t y) { return lcm_of(x, y, vgcd(x, y)); }
MOONLET_HD int64_t vshift_left(int64_t x, int64_t n) {
  return n < 0 || n > 63 ? 0 : static_cast<int64_t>(static_cast<uint64_t>(x) << n);
}
MOONLET_HD int64_t vshift_right(int64_t x, int64_t n) {
  return n < 0 || n > 63 ? (x < 0 ? -1 : 0) : x >> n;
}
// Of smaller integers: no digit of theirs is left 32 further on.
template <class T, class = std::enable_if_t<std::is_integral_v<T> && (sizeof(T) < 8)>>
MOONLET_HD T vshift_left(T x, T n) {
  const auto by = static_cast<uint32_t>(n);
  return static_cast<T>(by > 31 ? 0 : static_cast<uint32_t>(x) << by);
}
template <class T, class = std::enable_if_t<std::is_integral_v<T> && (sizeof(T) < 8)>>
MOONLET_HD T vshift_right(T x, T n) {
  const auto by = static_cast<uint32_t>(n);
  return static_cast<T>(static_cast<int32_t>(x) >> (by > 31 ? 31 : by));
}

// Rounds toward minus infinity.
MOONLET_HD int64_t vfloor_div(int64_t x, int64_t y) {
  const int64_t q = int_quotient(x, y);
  const bool down =
      ((x ^ y) < 0) & (vmul(q, y) != x) & (y != 0);  // no branch: signs come as they like
  return vsub(q, down);
}
// The remainder that has the sign of y.
MOONLET_HD int64_t vremainder(int64_t x, int64_t y) {
  const int64_t rest = vfmod(x, y);
  const bool differ = ((rest ^ y) < 0) & (rest != 0);
  return vadd(rest, vmul(differ, y));
}

// Complex functions that keep their digits near 0, from those of real numbers:
// e^(x + iy) - 1 = (e^x - 1) cos y - 2 sin^2(y / 2) + i e^x sin y, and |1 + z|^2 = 1 + x (2 + x) +
// y^2.
template <class Z, class = std::enable_if_t<is_complex_value<Z>>>
MOONLET_HD Z vexpm1(Z z) {
  const auto x = real_part(z), y = imag_part(z);
  const auto half = vsin(y / 2);
  return Z(vexpm1(x) * vcos(y) - 2 * half * half, vexp(x) * vsin(y));
}
template <class Z, class = std::enable_if_t<is_complex_value<Z>>>
MOONLET_HD Z vlog1p(Z z) {
  const auto x = real_part(z), y = imag_part(z);
  const auto near = vabs(x) < 0.5f && vabs(y) < 0.5f;
  const auto size = near ? vlog1p(x * (2 + x) + y * y) / 2 : vlog(vhypot(1 + x, y));
  return Z(size, vatan2(y, 1 + x));
}

#if MOONLET_HOST_FUNCTORS
#define MOONLET_COMPLEX(name, f)            \
  template <class T>                        \
  std::complex<T> name(std::complex<T> x) { \
    return f;                               \
  }
MOONLET_COMPLEX(vabs, std::complex<T>(std::abs(x)))
MOONLET_COMPLEX(vsqrt, std::sqrt(x))
MOONLET_COMPLEX(vexp, std::exp(x))
MOONLET_COMPLEX(vlog, std::log(x))
MOONLET_COMPLEX(vlog2, std::log(x) / T(0.693147180559945309417))
MOONLET_COMPLEX(vlog10, std::log10(x))
MOONLET_COMPLEX(vexp2, std::exp(x* T(0.693147180559945309417)))
MOONLET_COMPLEX(vsin, std::sin(x))
MOONLET_COMPLEX(vcos, std::cos(x))
MOONLET_COMPLEX(vtan, std::tan(x))
MOONLET_COMPLEX(vasin, std::asin(x))
MOONLET_COMPLEX(vacos, std::acos(x))
MOONLET_COMPLEX(vatan, std::atan(x))
MOONLET_COMPLEX(vsinh, std::sinh(x))
MOONLET_COMPLEX(vcosh, std::cosh(x))
MOONLET_COMPLEX(vtanh, std::tanh(x))
MOONLET_COMPLEX(vasinh, std::asinh(x))
MOONLET_COMPLEX(vacosh, std::acosh(x))
MOONLET_COMPLEX(vatanh, std::atanh(x))
MOONLET_COMPLEX(vconj, std::conj(x))
MOONLET_COMPLEX(vangle, std::complex<T>(std::arg(x)))
#undef MOONLET_COMPLEX
template <class T>
std::complex<T> vpow(std::complex<T> x, std::complex<T> y) {
  return y == std::complex<T>(0) ? std::complex<T>(1) : std::pow(x, y);
}
#endif

}  // namespace fn
}  // namespace moonlet
