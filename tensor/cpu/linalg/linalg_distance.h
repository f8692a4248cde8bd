// tensor/cpu/linalg/linalg_distance.h: distances of one point to many, by whole vectors of points.
#pragma once

#include <cstdint>

namespace moonlet::cpu {

// Points that lie by coordinates: coordinate k of point j is at data[k * stride + j]. Behind the
// last of them there is workspace up to a multiple of kPointVectors elements, which hold numbers.
inline constexpr int64_t kPointVectors = 64;
template <class T>
struct Points {
  const T* data;
  int64_t dims, stride;
};

// out[j] = the p-norm of `point` minus point j, for `count` points; there is workspace as behind
// those.
void distances_to(double p, const float* point, const Points<float>& others, int64_t count,
                  float* out);
void distances_to(double p, const double* point, const Points<double>& others, int64_t count,
                  double* out);

// sums[k] += the gradient of those distances with respect to the point's coordinate k, from that of
// each distance; what is read of `grad` and `distance` behind the last point must be 0.
void add_distance_grads(double p, const float* point, const Points<float>& others, int64_t count,
                        const float* grad, const float* distance, float* sums);
void add_distance_grads(double p, const double* point, const Points<double>& others, int64_t count,
                        const double* grad, const double* distance, double* sums);

}  // namespace moonlet::cpu
