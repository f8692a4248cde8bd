// cuda/kernels/common/moments.cuh: means and variances of numbers whose squares may leave the range
// of their type, and the normalisation by them, as tensor/cpu/normalization/normalization.h has it.
#pragma once

#include <cmath>
#include <limits>

#include "cuda/kernels/common/packs.cuh"
#include "cuda/kernels/common/rows.cuh"
#include "cuda/kernels/common/team.cuh"
#include "cuda/runtime/device.h"

namespace moonlet::cuda {

// The mean, with what rounding took off it, and the squared distances from it in units of unit^2.
struct Spread {
  double mean, rest, squares, unit;
  __device__ double variance(double count) const {
    return (squares > 0 ? squares : squares * 0) / count * unit * unit;
  }
  __device__ double rstd(double count, double eps) const {
    const double positive = squares > 0 ? squares : squares * 0;
    if (unit == 1) return rsqrt(positive / count + eps);
    return 1 / unit / sqrt(positive / count + eps / unit / unit);
  }
};

// Whether a sum of n squares computed in C may be wrong: it overflowed, or some underflowed and
// `eps`, which is added to their mean, does not hide that.
template <class C>
__device__ __forceinline__ bool left_range(double squares, int64_t n, double eps) {
  constexpr double kMost = std::numeric_limits<C>::max();
  constexpr double kLeast = std::numeric_limits<C>::min() / std::numeric_limits<C>::epsilon();
  return !(squares <= kMost) || (squares < kLeast * static_cast<double>(n) && eps < kLeast);
}

// Of n numbers of any size, of which a thread of the team goes over `mine`; read(i) gives one.
// Those that are not `centred` have the mean 0.
template <class Read>
MOONLET_OUTLINE Spread spread_in_double(int64_t mine, int64_t n, int64_t me, int team, bool centred,
                                        Read read) {
  const double count = static_cast<double>(n);
  double largest = 0, sum = 0, mean = 0, rest = 0, squares = 0;
  for (int64_t i = me; i < mine; i += team) largest = TakeLargest()(largest, fabs(read(i)));
  largest = combine_team(largest, team, TakeLargest());
  const bool scales = largest > 0 && largest < HUGE_VAL;
  const int exponent = scales ? ilogb(largest) : 0;
  if (centred) {
    for (int64_t i = me; i < mine; i += team) sum += ldexp(read(i), -exponent);
    mean = combine_team(sum, team, AddUp()) / count;
    for (int64_t i = me; i < mine; i += team) rest += ldexp(read(i), -exponent) - mean;
    rest = combine_team(rest, team, AddUp()) / count;
  }
  for (int64_t i = me; i < mine; i += team) {
    const double distance = ldexp(read(i), -exponent) - mean - rest;
    squares += distance * distance;
  }
  squares = combine_team(squares, team, AddUp());
  return {ldexp(mean, exponent), ldexp(rest, exponent), squares, ldexp(1.0, exponent)};
}

// Whether it holds for some thread of those that combine_team keeps together.
__device__ __forceinline__ bool any_of_team(bool holds, int team) {
  return team > kWarp ? holds : __any_sync(kAllLanes, holds) != 0;
}

template <class C, int kElement>
__device__ __forceinline__ C element_of(const PackSource& x, int64_t i) {
  const Words<16> words = load_pack<kElement>({x.data, x.code, false}, i, 1);
  return decoded<C, kElement>(bits_at<kElement>(words, 0), x.code);
}

// What normalisation subtracts and multiplies by. `shift` is what rounding took off the mean, times
// rstd; numbers so large or small that x - mean or rstd leaves the range of C are done in double.
template <class C>
struct Center {
  C mean, shift, rstd;
  double exact_mean, exact_rstd;
  bool wide;
  __device__ Center(double m, double rest, double r, int64_t count)
      : mean(static_cast<C>(m)),
        shift(static_cast<C>((m - static_cast<double>(mean) + rest) * r)),
        rstd(static_cast<C>(r)),
        exact_mean(m + rest),
        exact_rstd(r) {
    constexpr double kMost = std::numeric_limits<C>::max();
    const double most = r * kMost;
    const bool is_usual = most > 0 && most * most > 64 * static_cast<double>(count) &&
                          r < kMost * std::numeric_limits<C>::epsilon();
    wide = !is_usual && r == r;
  }
  __device__ Center(double m, double r, int64_t count) : Center(m, 0, r, count) {}
  __device__ Center(const Spread& s, int64_t count, double eps)
      : Center(s.mean, s.rest, s.rstd(static_cast<double>(count), eps), count) {}
  // (x - mean) rstd
  __device__ __forceinline__ C normal(C x) const {
    if (wide) return static_cast<C>((static_cast<double>(x) / 2 - exact_mean / 2) * exact_rstd * 2);
    return usual(x);
  }
  // The same where it is not wide.
  __device__ __forceinline__ C usual(C x) const { return (x - mean) * rstd - shift; }
  // v rstd
  __device__ __forceinline__ C scaled(C v) const {
    return wide ? static_cast<C>(static_cast<double>(v) * exact_rstd) : v * rstd;
  }
};

}  // namespace moonlet::cuda
