// tensor/shapes/random.h: argument checks and result shapes of the random composites.
#pragma once

#include <optional>

#include "tensor/shapes/result.h"

namespace moonlet::shapes {

// Throws unless p is a probability.
void check_probability(const char* op, double p);
// Throws unless they are what random_states gives.
void check_states(const char* op, const Tensor& states);
// The integers that `random_` draws, both ends included: low to high, or 1 to the one that is
// given, or 0 to the largest of x's dtype.
struct IntegerRange {
  int64_t first, last;
  // How many there are; 0 stands for all of int64.
  uint64_t count() const { return static_cast<uint64_t>(last) - static_cast<uint64_t>(first) + 1; }
};
IntegerRange integer_range(const Tensor& x, std::optional<int64_t> low,
                           std::optional<int64_t> high);
// The smallest and the largest value a draw may give: draws are rounded to x's dtype and kept
// between the two. Where the dtype has no value in the interval, `last` decides.
struct DrawBounds {
  double first, last;
};
// Of [from, to), or of `from` alone where the two are equal. Throws unless both and their distance
// are finite in x's dtype.
DrawBounds uniform_bounds(const Tensor& x, double from, double to);
// Of those integers in a floating x.
DrawBounds integer_bounds(const Tensor& x, IntegerRange range);
// The least value an exponential draw of that rate gives in x's dtype: 0 only where the rate is
// infinite, since the distribution holds no 0.
double exponential_least(const Tensor& x, double lambda);
// int64 keys of n positions, each of which `dtype` must hold.
Result randperm(int64_t n, std::optional<DType> dtype, Device device);
// int64 positions: (num_samples,) of (n,), (rows, num_samples) of (rows, n).
Result multinomial(const Tensor& probs, int64_t num_samples, bool replacement);

}  // namespace moonlet::shapes
