// tensor/functors/ctc_paths.h: the forward and backward variables of the connectionist temporal
// classification loss (Graves et al. 2006), as all devices compute them. Probabilities are
// logarithms.
//
// A target of s classes has 2 s + 1 positions: blanks and, between them, its classes. Position p of
// step t is reached from the positions p, p - 1 and, between two different classes, p - 2 of step t
// - 1.
#pragma once

#include <cmath>
#include <cstdint>

#include "tensor/functors/functor_math.h"

namespace moonlet::ctc {

// The positions of one target; classes count from 1, the blank from 0.
struct Positions {
  const int64_t* target;
  int64_t length, blank;
  MOONLET_HD int64_t count() const { return 2 * length + 1; }
  // The class at a position, from 0.
  MOONLET_HD int64_t at(int64_t p) const { return p % 2 == 0 ? blank : target[p / 2] - 1; }
  // Whether a path may go from position p to p + 2 in one step.
  MOONLET_HD bool skips(int64_t p) const {
    return p % 2 == 1 && p + 2 < count() && at(p) != at(p + 2);
  }
};

// log(exp(a) + exp(b)); minus infinity is the logarithm of 0.
template <class C>
MOONLET_HD C log_add(C a, C b) {
  const C top = a > b ? a : b, low = a > b ? b : a;
  if (low == C(-HUGE_VAL)) return top;
  return top + fn::vlog1p(fn::vexp(low - top));
}

// The sum over the ways into place p from the variables of the step before.
template <class C>
MOONLET_HD C into(const Positions& positions, const C* before, int64_t p) {
  C sum = before[p];
  if (p >= 1) sum = log_add(sum, before[p - 1]);
  if (p >= 2 && positions.skips(p - 2)) sum = log_add(sum, before[p - 2]);
  return sum;
}

// The sum over the ways on from position p to the variables of the step after.
template <class C>
MOONLET_HD C onward(const Positions& positions, const C* after, int64_t p) {
  C sum = after[p];
  if (p + 1 < positions.count()) sum = log_add(sum, after[p + 1]);
  if (positions.skips(p)) sum = log_add(sum, after[p + 2]);
  return sum;
}

// Minus the logarithm of the probability of all paths, from the variables of the last step.
template <class C>
MOONLET_HD C loss(const Positions& positions, const C* last, int64_t steps) {
  if (steps == 0) return positions.length == 0 ? C(0) : C(HUGE_VAL);
  const int64_t end = positions.count() - 1;
  return -(end == 0 ? last[0] : log_add(last[end], last[end - 1]));
}

}  // namespace moonlet::ctc
