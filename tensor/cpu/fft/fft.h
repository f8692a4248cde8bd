// tensor/cpu/fft/fft.h: plans of discrete Fourier transforms: the factors of a length, their
// twiddle factors, and the passes that carry them out on several transforms at once.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "tensor/cpu/common/thresholds.h"

namespace moonlet::cpu::fft {

inline constexpr int64_t kLargestRadix = thresholds::fft::kLargestRadix;
inline constexpr int64_t kFewPositions = thresholds::fft::kFewPositions;

// Numbers on the unit circle, their parts apart.
template <class T>
struct Circle {
  std::vector<T> re, im;
  Circle() = default;
  explicit Circle(size_t count) : re(count), im(count) {}
};

// One pass of Stockham's algorithm: transforms of `radix` points, `groups` of them for each
// position that earlier passes have made. The twiddle of group p and result k >= 1 is at (k - 1)
// groups + p.
template <class T>
struct Stage {
  int64_t radix, groups;
  Circle<T> twiddles;
  Circle<T> roots;  // the radix-th ones, where no butterfly is written for the radix
};

// How to transform n points. A length with a large prime factor is a convolution with a chirp, made
// by transforms of the length of `padded` (Bluestein, "A linear filtering approach to the
// computation of discrete Fourier transform", 1970).
template <class T>
struct Plan {
  int64_t n;
  std::vector<Stage<T>> stages;
  std::shared_ptr<const Plan<T>> padded;
  Circle<T> chirp, filter;
  // Whether a single transform leaves much of the vectors empty, so that several at once pay.
  bool narrow = false;
  // The points that each of the four arrays of a Work must have room for.
  int64_t room() const { return padded ? padded->n : n; }
};

// How to transform n real numbers. Of an even n as n / 2 complex ones, which are then taken apart
// with the n-th roots of unity. Of an odd n with a factor r that passes take, by a pass `odd` of
// real numbers, of whose r results the second half are conjugates; so r / 2 + 1 transforms of n / r
// points are left. Any other n as complex numbers.
template <class T>
struct RealPlan {
  int64_t n;
  std::shared_ptr<const Plan<T>> complex;
  Circle<T> turns;
  std::optional<Stage<T>> odd;
  bool narrow() const { return odd ? odd->groups < kFewPositions : complex->narrow; }
  // The complex transforms for one of real numbers.
  int64_t kept() const { return odd ? odd->radix / 2 + 1 : 1; }
  // The points that the arrays of a Work are to hold, and what each must have room for.
  int64_t points() const { return n % 2 == 0 ? n / 2 : n; }
  int64_t room() const { return std::max(points() + 1, kept() * complex->room()); }
};

// Plans are made once and kept, up to a bound; any thread may ask.
template <class T>
std::shared_ptr<const Plan<T>> plan_for(int64_t n);
template <class T>
std::shared_ptr<const RealPlan<T>> real_plan_for(int64_t n);

// Point i of transform b of a batch is at i * batch + b, its parts in two arrays; the other two are
// written over.
template <class T>
struct Work {
  T *re, *im, *other_re, *other_im;
  void turn() {
    std::swap(re, other_re);
    std::swap(im, other_im);
  }
  // The memory of the other two, which lie one behind the other.
  T* spare() const { return std::min(other_re, other_im); }
  // A transform of swapped parts is the inverse one, with its parts swapped.
  void swap_parts() {
    std::swap(re, im);
    std::swap(other_re, other_im);
  }
};

// The sums of x[j] exp(-2 pi i j k / n), in the place of x.
template <class T>
void transform(const Plan<T>& plan, Work<T>& work, int64_t batch);

// Passes of one instruction set, chosen when the program runs; float and double.
// n rows of `count` complex numbers, `stride` numbers apart, to and from parts in arrays of their
// own, where the rows are one behind the other; multiplied by `scale` on the way back.
void take_apart(const float* x, int64_t stride, int64_t n, int64_t count, float* re, float* im);
void take_apart(const double* x, int64_t stride, int64_t n, int64_t count, double* re, double* im);
void put_together(const float* re, const float* im, float scale, float* y, int64_t stride,
                  int64_t n, int64_t count);
void put_together(const double* re, const double* im, double scale, double* y, int64_t stride,
                  int64_t n, int64_t count);
// The same of kRows rows of n numbers, `stride` numbers apart, of which the parts are a batch, one
// behind the other in memory. Written over are `spare`, which has room for all, and on the way back
// the parts.
inline constexpr int64_t kRows = 16;
void take_rows_apart(const float* x, int64_t stride, int64_t n, float* spare, float* re, float* im);
void put_rows_together(float* re, float* im, float scale, int64_t n, float* spare, float* y,
                       int64_t stride);
// One pass, from (re, im) to (other_re, other_im): `span` is the points before it times the batch.
void run_stage(const Stage<float>& stage, const Work<float>& work, int64_t span);
void run_stage(const Stage<double>& stage, const Work<double>& work, int64_t span);
// Multiplies point i of a batch by factor i.
void multiply(const Circle<float>& by, float* re, float* im, int64_t batch);
void multiply(const Circle<double>& by, double* re, double* im, int64_t batch);
// Of the transform Z of h numbers that are two real ones each, in (re, im), the first h + 1 sums of
// the 2 h real ones, in the other arrays: with E and O the transforms of those at even and odd
// positions, Z = E + i O, X[k] = E[k] + w^k O[k] and X[h - k] = conj(E[k] - w^k O[k]).
void split_halves(const Circle<float>& turns, const Work<float>& w, int64_t h, int64_t batch);
void split_halves(const Circle<double>& turns, const Work<double>& w, int64_t h, int64_t batch);
// The way back, without the factor 1/2: sums in the other arrays, Z in (re, im).
void join_halves(const Circle<float>& turns, const Work<float>& w, int64_t h, int64_t batch);
void join_halves(const Circle<double>& turns, const Work<double>& w, int64_t h, int64_t batch);
// The pass of a RealPlan of odd n, from n real numbers in `re` to kept() transforms of n / r points
// in the other arrays. Of their results, sum k + r q is point q of transform k.
void divide_reals(const Stage<float>& stage, const Work<float>& w, int64_t batch);
void divide_reals(const Stage<double>& stage, const Work<double>& w, int64_t batch);
// The way back, from (re, im) to real numbers in `other_re`, without a factor.
void unite_reals(const Stage<float>& stage, const Work<float>& w, int64_t batch);
void unite_reals(const Stage<double>& stage, const Work<double>& w, int64_t batch);

}  // namespace moonlet::cpu::fft
