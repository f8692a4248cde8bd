// tensor/cpu/image.h: weighted sums of elements at listed places, by whole vectors.
#pragma once

#include <cstdint>

namespace moonlet::cpu {

// Places and weights of `taps` elements for each result: those of tap k and result i are at
// k * results + i. Places are integers of the elements' size.
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

}  // namespace moonlet::cpu
