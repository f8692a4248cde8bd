// tensor/functors/random_counts.h: draws of Poisson, binomial and gamma distributions, shared by
// CPU and CUDA. How many random numbers one takes depends on what they are, so each has a sequence
// of its own: the blocks at its counter.
#pragma once

#include "tensor/functors/random_transforms.h"

namespace moonlet::draws {

// Evenly distributed numbers above 0 and at most 1, two to a block.
class Sequence {
 public:
  MOONLET_HD Sequence(const Philox& rng, uint64_t counter) : rng_(rng), counter_(counter) {}
  MOONLET_HD double next() {
    if (step_ % 2 == 0) block_ = rng_.block(counter_, step_ / 2);
    const int at = step_++ % 2 == 0 ? 0 : 2;
    return unit_f64(block_.v[at], block_.v[at + 1]) + 0x1p-54;
  }

 private:
  Philox rng_;
  uint64_t counter_, step_ = 0;
  PhiloxBlock block_{};
};

// log(k!) less Stirling's approximation (k + 1/2) log(k + 1) - (k + 1) + log(2 pi) / 2, by the
// asymptotic series in 1 / (k + 1), which from k = 10 on is right to rounding.
MOONLET_HD double stirling_rest(double k) {
  constexpr double kFirst[] = {0.08106146679532726, 0.04134069595540929, 0.02767792568499834,
                               0.02079067210376509, 0.01664469118982119, 0.01387612882307075,
                               0.01189670994589177, 0.01041126526197209, 0.00925546218271273,
                               0.00833056343336287};
  if (k < 10) return kFirst[static_cast<int>(k)];
  const double m = k + 1, q = 1 / (m * m);
  return (1.0 / 12 - (1.0 / 360 - (1.0 / 1260 - q / 1680) * q) * q) / m;
}

// Whole numbers k of probability exp(-rate) rate^k / k!.
MOONLET_HD double poisson(const Philox& rng, uint64_t counter, double rate) {
  Sequence u(rng, counter);
  if (!(rate > 0)) return rate == 0 ? 0 : NAN;
  if (rate < 10) {
    const double limit = ::exp(-rate);
    double k = 0, product = u.next();
    for (; product > limit; k += 1) product *= u.next();
    return k;
  }
  if (rate > 1e300) return rate;
  // Transformed rejection with a squeeze: algorithm PTRS of Hormann (1993).
  const double log_rate = ::log(rate);
  const double b = 0.931 + 2.53 * ::sqrt(rate), a = -0.059 + 0.02483 * b;
  const double inverse_alpha = 1.1239 + 1.1328 / (b - 3.4), v_r = 0.9277 - 3.6224 / (b - 2);
  for (;;) {
    const double x = u.next() - 0.5, v = u.next(), us = 0.5 - ::fabs(x);
    const double k = ::floor((2 * a / us + b) * x + rate + 0.43);
    if (us >= 0.07 && v <= v_r) return k;
    if (k < 0 || (us < 0.013 && v > us)) continue;
    const double logarithm =
        (k + 0.5) * ::log(k + 1) - (k + 1) + 0.9189385332046727 + stirling_rest(k);
    if (::log(v * inverse_alpha / (a / (us * us) + b)) <= k * log_rate - rate - logarithm) return k;
  }
}

// The successes of n trials of probability p <= 1/2 where few are awaited: the trials up to each
// success are drawn until all are used up.
MOONLET_HD double binomial_by_waiting(Sequence& u, double n, double p) {
  const double scale = 1 / ::log1p(-p);
  double used = 0, successes = 0;
  for (;;) {
    used += ::floor(::log(u.next()) * scale) + 1;
    if (used > n) return successes;
    successes += 1;
  }
}

// The same where n p >= 10: algorithm BTRS of Hormann, "The generation of binomial random variates"
// (1993).
MOONLET_HD double binomial_by_rejection(Sequence& u, double n, double p) {
  const double spread = ::sqrt(n * p * (1 - p)), b = 1.15 + 2.53 * spread;
  const double a = -0.0873 + 0.0248 * b + 0.01 * p, c = n * p + 0.5, v_r = 0.92 - 4.2 / b;
  const double alpha = (2.83 + 5.1 / b) * spread, m = ::floor((n + 1) * p);
  const double odds = ::log(p / (1 - p));
  const double at_mode =
      (m + 0.5) * ::log((m + 1) / (n - m + 1)) + stirling_rest(m) + stirling_rest(n - m);
  for (;;) {
    const double x = u.next() - 0.5, v = u.next(), us = 0.5 - ::fabs(x);
    const double k = ::floor((2 * a / us + b) * x + c);
    if (us >= 0.07 && v <= v_r) return k;
    if (k < 0 || k > n) continue;
    const double bound = at_mode + (n + 1) * ::log((n - m + 1) / (n - k + 1)) +
                         (k + 0.5) * ::log((n - k + 1) / (k + 1)) + (k - m) * odds -
                         stirling_rest(k) - stirling_rest(n - k);
    if (::log(v * alpha / (a / (us * us) + b)) <= bound) return k;
  }
}

// The successes of n trials of probability p each; n is rounded down.
MOONLET_HD double binomial(const Philox& rng, uint64_t counter, double n, double p) {
  if (!(n >= 0 && p >= 0 && p <= 1) || n > 0x1p53) return NAN;
  Sequence u(rng, counter);
  const double trials = ::floor(n), rare = p > 0.5 ? 1 - p : p;
  double successes = 0;
  if (trials > 0 && rare > 0)
    successes = trials * rare < 10 ? binomial_by_waiting(u, trials, rare)
                                   : binomial_by_rejection(u, trials, rare);
  return p > 0.5 ? trials - successes : successes;
}

// Numbers of the gamma distribution of shape a and rate 1: a normal number's cube is accepted or
// not (Marsaglia and Tsang, "A simple method for generating gamma variables", 2000); below 1 one of
// shape a + 1 is scaled.
MOONLET_HD double standard_gamma(const Philox& rng, uint64_t counter, double a) {
  if (!(a > 0)) return a == 0 ? 0 : NAN;
  if (a > 1e300) return a;
  Sequence u(rng, counter);
  const double scale = a < 1 ? ::pow(u.next(), 1 / a) : 1;
  const double d = (a < 1 ? a + 1 : a) - 1.0 / 3, c = 1 / ::sqrt(9 * d);
  for (;;) {
    const double radius = ::sqrt(-2 * ::log(u.next()));
    const double z = radius * ::cos(6.283185307179586 * u.next());
    const double root = 1 + c * z;
    if (root <= 0) continue;
    const double v = root * root * root;
    if (::log(u.next()) < 0.5 * z * z + d * (1 - v + ::log(v))) return d * v * scale;
  }
}

}  // namespace moonlet::draws
