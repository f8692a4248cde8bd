// tensor/cpu/image/image.h: weighted sums of elements at listed positions, by whole vectors.
#pragma once

#include <cstdint>

namespace moonlet::cpu {

// Positions and weights of `taps` elements for each result: those of tap k and result i are at
// k * results + i. Positions are integers of the elements' size.
template <class T, class I>
struct LineTaps {
  int64_t taps, results;
  const I* at;
  const T* weight;
};

// y[i] = the weighted sum of result i, for i in [begin, end).
void weigh_line(const LineTaps<float, int32_t>& line, const float* x, int64_t begin, int64_t end,
                float* y);
void weigh_line(const LineTaps<double, int64_t>& line, const double* x, int64_t begin, int64_t end,
                double* y);

// sums[i] += factor[i] * x[at[i]]
void add_products(const int32_t* at, const float* x, const float* factor, int64_t count,
                  float* sums);
void add_products(const int64_t* at, const double* x, const double* factor, int64_t count,
                  double* sums);

}  // namespace moonlet::cpu
