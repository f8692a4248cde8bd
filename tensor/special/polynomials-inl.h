// tensor/special/polynomials-inl.h: the orthogonal polynomials of low orders, of vectors and single
// values, by their recurrences; polynomials.h has all orders. Included after functors-inl.h, and as
// often.
#if defined(MOONLET_TENSOR_SPECIAL_POLYNOMIALS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MOONLET_TENSOR_SPECIAL_POLYNOMIALS_INL_H_
#undef MOONLET_TENSOR_SPECIAL_POLYNOMIALS_INL_H_
#else
#define MOONLET_TENSOR_SPECIAL_POLYNOMIALS_INL_H_
#endif

#include "tensor/special/polynomials.h"
#include "tensor/special/series-inl.h"

#ifdef HWY_NAMESPACE
HWY_BEFORE_NAMESPACE();
#endif
namespace moonlet {
namespace MOONLET_FUNCTOR_NAMESPACE {
namespace special {

// Where the whole order n is low and no polynomial of such an order leaves the doubles.
template <class V>
MOONLET_FN auto is_low_order(V x, V n) {
  return (n >= V(0)) && (n <= V(8)) && (vabs(x) <= V(1e30));
}

// p_n of p_0 = 1, p_1 and p_k+1 = next(k, p_k, p_k-1).
template <class V, class F>
MOONLET_FN V recurrence(V n, V first, F next) {
  V before(1), here = first;
  for (int k = 1; any(V(k) < n); ++k) {
    const V after = next(V(k), here, before);
    before = here;
    here = select(V(k) < n, after, here);
  }
  return select(n == V(0), V(1), here);
}

}  // namespace special
}  // namespace MOONLET_FUNCTOR_NAMESPACE
}  // namespace moonlet
#ifdef HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#endif  // toggle
