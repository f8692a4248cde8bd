// tensor/special/series.h: constants of the special functions, and what those of single values are
// evaluated with. All of tensor/special/ but erfinv and the gradient of log_ndtr computes in
// double, for the CPU and for CUDA. The coefficients of the series were computed from the functions
// themselves with 45 digits and end where the next is below 1e-18 of the largest.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "tensor/core/half.h"  // MOONLET_HD

namespace moonlet::special {

inline constexpr double kInf = std::numeric_limits<double>::infinity();
inline constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
inline constexpr double kPi = 3.14159265358979323846;

// c[0] + c[1] T1(t) + c[2] T2(t) + ... for t from -1 to 1, by Clenshaw's recurrence (1955).
template <int N>
MOONLET_HD double chebyshev(const double (&c)[N], double t) {
  double next = 0, after = 0;
  for (int k = N - 1; k > 0; --k) {
    const double here = 2 * t * next - after + c[k];
    after = next;
    next = here;
  }
  return c[0] + t * next - after;
}

// Whether an order is odd.
MOONLET_HD bool is_odd(double n) { return fmod(n, 2.0) != 0; }

}  // namespace moonlet::special
