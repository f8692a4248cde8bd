// tensor/special/series-inl.h: what the special functions of vectors and single values are
// evaluated with: choices between forms, Chebyshev series and polynomials. V is double, or the
// CPU's vector of it.
//
// Included after functors-inl.h, and as often.
#if defined(MOONLET_TENSOR_SPECIAL_SERIES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MOONLET_TENSOR_SPECIAL_SERIES_INL_H_
#undef MOONLET_TENSOR_SPECIAL_SERIES_INL_H_
#else
#define MOONLET_TENSOR_SPECIAL_SERIES_INL_H_
#endif

#include "tensor/functors/functors-inl.h"
#include "tensor/special/series.h"

#ifdef HWY_NAMESPACE
HWY_BEFORE_NAMESPACE();
#endif
namespace moonlet {
namespace MOONLET_FUNCTOR_NAMESPACE {
namespace special {

using namespace ::moonlet::special;  // NOLINT(google-build-using-namespace)

// a() where the mask holds, elsewhere b(): only what some value needs is computed.
template <class M, class A, class B>
MOONLET_FN auto either(M mask, A a, B b) -> decltype(a()) {
  if (!any(mask)) return b();
  if (!any(!mask)) return a();
  return select(mask, a(), b());
}

// The sum of c[k] T_k(t) for t from -1 to 1, of all terms or the first ones, by Clenshaw's
// recurrence (1955) of the even and of the odd ones, which need not wait for each other: T_2k(t) is
// T_k(s) at s = 2 t^2 - 1, T_2k+1(t) is t times a polynomial in s, of the same recurrence from 1
// and 2 s - 1.
template <int Terms = 0, int N, class V>
MOONLET_FN V chebyshev(const double (&c)[N], V t) {
  constexpr int kTerms = Terms > 0 ? Terms : N;
  const V s = vfma(t + t, t, V(-1)), twice = s + s;
  V even(kTerms % 2 == 1 ? c[kTerms - 1] : 0), even_after(0), odd(0), odd_after(0);
  for (int k = (kTerms - 2) / 2 * 2; k > 0; k -= 2) {
    const V next = vfma(twice, odd, V(c[k + 1]) - odd_after);
    odd_after = odd, odd = next;
    const V here = vfma(twice, even, V(c[k]) - even_after);
    even_after = even, even = here;
  }
  odd = vfma(twice - V(1), odd, V(c[1]) - odd_after);
  return vfma(t, odd, vfma(s, even, V(c[0]) - even_after));
}

// Where an order is odd.
template <class V>
MOONLET_FN auto is_odd(V n) {
  return n - V(2) * vfloor(V(0.5) * n) != V(0);
}

// exp(scale * x * x): x * x is taken with the bits that rounding drops, which a large exponent
// would show. `scale` is a power of two, or minus one.
template <class V>
MOONLET_FN V exp_square(double scale, V x) {
  const V square = x * x, dropped = vproduct_rest(x, x, square);
  // In two halves: the first alone may leave the range of doubles where a product does not.
  const V half = vexp(V(0.5 * scale) * square);
  const V y = half * (V(1) + V(scale) * dropped) * half;
  return select(square < V(4e3), y, select(x != x, x, V(scale < 0 ? 0 : kInf)));
}

}  // namespace special
}  // namespace MOONLET_FUNCTOR_NAMESPACE
}  // namespace moonlet
#ifdef HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#endif  // toggle
