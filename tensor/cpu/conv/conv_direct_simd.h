// tensor/cpu/conv/conv_direct_simd.h: the loops of conv_direct.cpp over whole vectors, and relu
// of what was just computed.
#pragma once

#include <cstdint>

#include "tensor/cpu/common/thresholds.h"

namespace moonlet::cpu {

// Taps of a window: where each reads, from the element that is computed.
struct Taps {
  const int64_t* offsets;
  int64_t count;
};

// What the loops may read and write behind the last element.
inline constexpr int64_t kDirectSlack = thresholds::conv::kDirectSlack;
// The most rows of results that one call computes.
inline constexpr int64_t kDirectOutputs = thresholds::conv::kDirectOutputs;

// out[o * step + i] = bias[o] + sum of weights[t * outputs + o] in[offsets[t] + i] for i < count; a
// bias of nullptr is 0. `outputs` is 1, 2 or 4.
void correlate(int64_t outputs, const float* in, const Taps& taps, const float* weights,
               const float* bias, float* out, int64_t step, int64_t count);
void correlate(int64_t outputs, const double* in, const Taps& taps, const double* weights,
               const double* bias, double* out, int64_t step, int64_t count);

// sums[t] += sum of grad[i] in[offsets[t] + i] for i < count; grad is 0 in the slack.
void tap_sums(const float* grad, const float* in, const Taps& taps, int64_t count, double* sums);
void tap_sums(const double* grad, const double* in, const Taps& taps, int64_t count, double* sums);

// to[i] = from[2 * i], and the other way round, for i < count.
void take_even(const float* from, float* to, int64_t count);
void take_even(const double* from, double* to, int64_t count);
// to[2 * i] = even[i], to[2 * i + 1] = odd[i] for i < count.
void interleave(const float* even, const float* odd, float* to, int64_t count);
void interleave(const double* even, const double* odd, double* to, int64_t count);

// relu in place; what is no number stays.
void clip_at_zero(float* elements, int64_t count);
void clip_at_zero(double* elements, int64_t count);

}  // namespace moonlet::cpu
