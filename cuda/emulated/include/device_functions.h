// cuda/emulated/include/device_functions.h: the functions device code finds in the global
// namespace: barriers, warp functions, atomics, bit and math intrinsics.
#pragma once

#include <math.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "grid.h"

// Barriers and fences -----------------------------------------------------------------------------

inline void __syncthreads() { moonlet::emulated::barrier(false); }
inline int __syncthreads_count(int yes) {
  return static_cast<int>(moonlet::emulated::barrier(yes != 0).yes);
}
inline int __syncthreads_or(int yes) { return moonlet::emulated::barrier(yes != 0).yes != 0; }
inline int __syncthreads_and(int yes) {
  const auto votes = moonlet::emulated::barrier(yes != 0);
  return votes.yes == votes.present;
}
inline void __syncwarp(unsigned mask = 0xffffffffu) { moonlet::emulated::sync_warp(mask); }
inline void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
inline void __threadfence_block() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
inline void __threadfence_system() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
inline void __nanosleep(unsigned) {}
inline void __trap() { moonlet::emulated::fail_launch("device code called __trap()"); }

// Warp functions ----------------------------------------------------------------------------------

namespace moonlet::emulated {

template <class T>
T shuffle(unsigned mask, T value, unsigned source) {
  static_assert(std::is_arithmetic_v<T> && (sizeof(T) == 4 || sizeof(T) == 8),
                "shuffles move 32-bit and 64-bit numbers");
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  bits = exchange(mask, bits, source);
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

inline unsigned lane() { return context.thread % kWarpSize; }

}  // namespace moonlet::emulated

template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32) {
  const unsigned segment = moonlet::emulated::lane() & ~static_cast<unsigned>(width - 1);
  return moonlet::emulated::shuffle(mask, value,
                                    segment + (static_cast<unsigned>(source) & (width - 1u)));
}

template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32) {
  const unsigned lane = moonlet::emulated::lane(), position = lane & (width - 1u);
  return moonlet::emulated::shuffle(mask, value, delta > position ? lane : lane - delta);
}

template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32) {
  const unsigned lane = moonlet::emulated::lane(), position = lane & (width - 1u);
  const bool inside = delta < static_cast<unsigned>(width) - position;
  return moonlet::emulated::shuffle(mask, value, inside ? lane + delta : lane);
}

template <class T>
T __shfl_xor_sync(unsigned mask, T value, int bits, int width = 32) {
  const unsigned lane = moonlet::emulated::lane();
  const unsigned source = lane ^ static_cast<unsigned>(bits);
  const unsigned end = (lane & ~(width - 1u)) + static_cast<unsigned>(width);
  return moonlet::emulated::shuffle(mask, value, source < end ? source : lane);
}

inline unsigned __ballot_sync(unsigned mask, int yes) {
  return moonlet::emulated::vote(mask, yes != 0).yes;
}
inline int __any_sync(unsigned mask, int yes) {
  return moonlet::emulated::vote(mask, yes != 0).yes != 0;
}
inline int __all_sync(unsigned mask, int yes) {
  const auto votes = moonlet::emulated::vote(mask, yes != 0);
  return votes.yes == votes.present;
}

// The lanes that have the same value.
template <class T>
unsigned __match_any_sync(unsigned mask, T value) {
  unsigned same = 0;
  for (unsigned lane = 0; lane < 32; ++lane)
    if ((mask >> lane & 1u) != 0 && moonlet::emulated::shuffle(mask, value, lane) == value)
      same |= 1u << lane;
  return same;
}

// Atomics: each returns the old value, as on the device
// --------------------------------------------

namespace moonlet::emulated {

template <class T>
using AtomicBits =
    std::conditional_t<sizeof(T) == 8, std::uint64_t,
                       std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint16_t>>;

template <class T, class F>
T atomic_update(T* address, F next) {
  using Bits = AtomicBits<T>;
  auto* cell = reinterpret_cast<Bits __attribute__((may_alias))*>(address);
  Bits old = __atomic_load_n(cell, __ATOMIC_RELAXED);
  for (;;) {
    const Bits wanted = std::bit_cast<Bits>(static_cast<T>(next(std::bit_cast<T>(old))));
    if (__atomic_compare_exchange_n(cell, &old, wanted, false, __ATOMIC_SEQ_CST,
                                    __ATOMIC_RELAXED)) {
      return std::bit_cast<T>(old);
    }
  }
}

template <class T>
using Same = std::type_identity_t<T>;

}  // namespace moonlet::emulated

template <class T>
T atomicAdd(T* address, moonlet::emulated::Same<T> value) {
  if constexpr (std::is_integral_v<T>) {
    using U = std::make_unsigned_t<T>;
    return moonlet::emulated::atomic_update(address, [=](T old) {
      return static_cast<T>(static_cast<U>(old) + static_cast<U>(value));
    });
  } else {
    return moonlet::emulated::atomic_update(address, [=](T old) { return old + value; });
  }
}
template <class T>
T atomicSub(T* address, moonlet::emulated::Same<T> value) {
  using U = std::make_unsigned_t<T>;
  return moonlet::emulated::atomic_update(
      address, [=](T old) { return static_cast<T>(static_cast<U>(old) - static_cast<U>(value)); });
}
template <class T>
T atomicMax(T* address, moonlet::emulated::Same<T> value) {
  return moonlet::emulated::atomic_update(address,
                                          [=](T old) { return old < value ? value : old; });
}
template <class T>
T atomicMin(T* address, moonlet::emulated::Same<T> value) {
  return moonlet::emulated::atomic_update(address,
                                          [=](T old) { return value < old ? value : old; });
}
template <class T>
T atomicAnd(T* address, moonlet::emulated::Same<T> value) {
  return moonlet::emulated::atomic_update(address, [=](T old) { return old & value; });
}
template <class T>
T atomicOr(T* address, moonlet::emulated::Same<T> value) {
  return moonlet::emulated::atomic_update(address, [=](T old) { return old | value; });
}
template <class T>
T atomicXor(T* address, moonlet::emulated::Same<T> value) {
  return moonlet::emulated::atomic_update(address, [=](T old) { return old ^ value; });
}
template <class T>
T atomicExch(T* address, moonlet::emulated::Same<T> value) {
  return moonlet::emulated::atomic_update(address, [=](T) { return value; });
}
template <class T>
T atomicCAS(T* address, moonlet::emulated::Same<T> compare, moonlet::emulated::Same<T> value) {
  return moonlet::emulated::atomic_update(address,
                                          [=](T old) { return old == compare ? value : old; });
}
inline unsigned atomicInc(unsigned* address, unsigned most) {
  return moonlet::emulated::atomic_update(address,
                                          [=](unsigned old) { return old >= most ? 0u : old + 1; });
}
inline unsigned atomicDec(unsigned* address, unsigned most) {
  return moonlet::emulated::atomic_update(
      address, [=](unsigned old) { return old == 0 || old > most ? most : old - 1; });
}

template <class T>
T __ldg(const T* address) {
  return *address;
}

// Bits
// ---------------------------------------------------------------------------------------------

inline int __popc(unsigned x) { return std::popcount(x); }
inline int __popcll(unsigned long long x) { return std::popcount(x); }
inline int __clz(int x) { return std::countl_zero(static_cast<unsigned>(x)); }
inline int __clzll(long long x) { return std::countl_zero(static_cast<unsigned long long>(x)); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }
inline unsigned __brev(unsigned x) {
  unsigned reversed = 0;
  for (int i = 0; i < 32; ++i, x >>= 1) reversed = reversed << 1 | (x & 1);
  return reversed;
}
inline unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned>(std::uint64_t{a} * b >> 32);
}
inline int __mulhi(int a, int b) { return static_cast<int>(std::int64_t{a} * b >> 32); }
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return static_cast<unsigned long long>(static_cast<unsigned __int128>(a) * b >> 64);
}
inline long long __mul64hi(long long a, long long b) {
  return static_cast<long long>(static_cast<__int128>(a) * b >> 64);
}
inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned by) {
  return static_cast<unsigned>((std::uint64_t{high} << 32 | low) << (by & 31) >> 32);
}
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned by) {
  return static_cast<unsigned>((std::uint64_t{high} << 32 | low) >> (by & 31));
}
inline int __float_as_int(float x) { return std::bit_cast<int>(x); }
inline unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }
inline float __int_as_float(int x) { return std::bit_cast<float>(x); }
inline float __uint_as_float(unsigned x) { return std::bit_cast<float>(x); }
inline long long __double_as_longlong(double x) { return std::bit_cast<long long>(x); }
inline double __longlong_as_double(long long x) { return std::bit_cast<double>(x); }
inline int __float2int_rn(float x) { return static_cast<int>(std::nearbyint(x)); }
inline int __float2int_rz(float x) { return static_cast<int>(x); }

// Math: what CUDA adds to math.h
// --------------------------------------------------------------------

#define MOONLET_EMULATED_MIN_MAX(type)                      \
  inline type min(type a, type b) { return b < a ? b : a; } \
  inline type max(type a, type b) { return a < b ? b : a; }
MOONLET_EMULATED_MIN_MAX(int)
MOONLET_EMULATED_MIN_MAX(unsigned)
MOONLET_EMULATED_MIN_MAX(long)
MOONLET_EMULATED_MIN_MAX(unsigned long)
MOONLET_EMULATED_MIN_MAX(long long)
MOONLET_EMULATED_MIN_MAX(unsigned long long)
#undef MOONLET_EMULATED_MIN_MAX
inline float min(float a, float b) { return std::fmin(a, b); }
inline float max(float a, float b) { return std::fmax(a, b); }
inline double min(double a, double b) { return std::fmin(a, b); }
inline double max(double a, double b) { return std::fmax(a, b); }

inline float rsqrtf(float x) { return 1.0f / std::sqrt(x); }
inline double rsqrt(double x) { return 1.0 / std::sqrt(x); }
inline float rsqrt(float x) { return rsqrtf(x); }
inline float rcbrtf(float x) { return 1.0f / std::cbrt(x); }
inline double rcbrt(double x) { return 1.0 / std::cbrt(x); }
inline double normcdf(double x) { return 0.5 * std::erfc(x * -0.70710678118654752440); }
inline float normcdff(float x) { return 0.5f * std::erfc(x * -0.70710678118654752440f); }
inline double sinpi(double x) { return std::sin(std::remainder(x, 2.0) * 3.14159265358979323846); }
inline double cospi(double x) { return std::cos(std::remainder(x, 2.0) * 3.14159265358979323846); }
inline float sinpif(float x) { return static_cast<float>(sinpi(x)); }
inline float cospif(float x) { return static_cast<float>(cospi(x)); }
inline float __saturatef(float x) { return x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f; }
inline float __fdividef(float a, float b) { return a / b; }
inline float fdividef(float a, float b) { return a / b; }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
inline float __fsqrt_rn(float x) { return std::sqrt(x); }
inline float __frcp_rn(float x) { return 1.0f / x; }
inline float __frsqrt_rn(float x) { return rsqrtf(x); }
inline double __dadd_rn(double a, double b) { return a + b; }
inline double __dmul_rn(double a, double b) { return a * b; }

// The C library declares functions of these names for itself, so only macros can take them.
#define __expf(x) expf(x)
#define __exp10f(x) exp10f(x)
#define __logf(x) logf(x)
#define __log2f(x) log2f(x)
#define __log10f(x) log10f(x)
#define __sinf(x) sinf(x)
#define __cosf(x) cosf(x)
#define __tanf(x) tanf(x)
#define __powf(x, y) powf(x, y)
