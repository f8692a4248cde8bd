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

#include "tensor/functors-inl.h"
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

// c[0] + c[1] T1(t) + c[2] T2(t) + ... for t from -1 to 1, by Clenshaw's recurrence (1955).
template <int N, class V>
MOONLET_FN V chebyshev(const double (&c)[N], V t) {
  const V twice = t + t;
  V next(c[N - 1]), after(0);
  for (int k = N - 2; k > 0; --k) {
    const V here = vfma(twice, next, V(c[k]) - after);
    after = next;
    next = here;
  }
  return vfma(t, next, V(c[0]) - after);
}

// c[0] + c[1] x + c[2] x^2 + ...
template <int N, class V>
MOONLET_FN V powers(const double (&c)[N], V x) {
  V y(c[N - 1]);
  for (int k = N - 2; k >= 0; --k) y = vfma(y, x, V(c[k]));
  return y;
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
