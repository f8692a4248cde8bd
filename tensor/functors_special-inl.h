// tensor/functors_special-inl.h: the functors of family `special`, named as those of
// functors-inl.h. The short ones are expressions for vectors and single values; the others are
// functions of tensor/special/, which compute in double (erfinv also in float), for single values
// only (`scalar` in their rows).
//
// Included after functors-inl.h, and as often.
#if defined(MOONLET_TENSOR_FUNCTORS_SPECIAL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MOONLET_TENSOR_FUNCTORS_SPECIAL_INL_H_
#undef MOONLET_TENSOR_FUNCTORS_SPECIAL_INL_H_
#else
#define MOONLET_TENSOR_FUNCTORS_SPECIAL_INL_H_
#endif

#include "tensor/functors-inl.h"
#include "tensor/special/airy.h"
#include "tensor/special/bessel.h"
#include "tensor/special/incomplete_gamma.h"
#include "tensor/special/modified_bessel.h"
#include "tensor/special/normal.h"
#include "tensor/special/polynomials.h"

#ifdef HWY_NAMESPACE
HWY_BEFORE_NAMESPACE();
#endif

namespace moonlet {
namespace MOONLET_FUNCTOR_NAMESPACE {

// x * log(y), 0 where x is 0 unless y is no number.
struct Xlogy {
  template <class V>
  MOONLET_FN V operator()(V x, V y) const {
    return select(y != y, y, select(x == V(0), V(0), x * vlog(y)));
  }
};
struct SpecialXlog1py {
  template <class V>
  MOONLET_FN V operator()(V x, V y) const {
    return select(y != y, y, select(x == V(0), V(0), x * vlog1p(y)));
  }
};
struct SpecialEntr {
  template <class V>
  MOONLET_FN V operator()(V x) const {
    const V outside = select(x == V(0), V(0), select(x != x, x, V(-HUGE_VAL)));
    return select(x > V(0), -x * vlog(x), outside);
  }
};
struct Sinc {
  template <class V>
  MOONLET_FN V operator()(V x) const {
    const V angle = x * V(3.14159265358979323846);
    return select(x == V(0), V(1), vsin(angle) / angle);
  }
};
// A negative eps limits nothing.
struct Logit {
  template <class V>
  MOONLET_FN V operator()(V x, V eps) const {
    const V high = V(1) - eps;
    const V limited = select(x < eps, eps, select(x > high, high, x));
    const V z = select(eps < V(0), x, limited);
    return vlog(z / (V(1) - z));
  }
};

struct Erfinv {
  template <class T>
  MOONLET_FN T operator()(T x) const {
    return special::erfinv(x);
  }
};

#define MOONLET_SPECIAL1(NAME, ...)              \
  struct NAME {                                  \
    template <class T>                           \
    MOONLET_FN T operator()(T value) const {     \
      const auto x = static_cast<double>(value); \
      return static_cast<T>(__VA_ARGS__);        \
    }                                            \
  };
#define MOONLET_SPECIAL2(NAME, ...)                    \
  struct NAME {                                        \
    template <class T>                                 \
    MOONLET_FN T operator()(T first, T second) const { \
      const auto x = static_cast<double>(first);       \
      const auto y = static_cast<double>(second);      \
      return static_cast<T>(__VA_ARGS__);              \
    }                                                  \
  };

// clang-format off
MOONLET_SPECIAL1(Lgamma, special::lgamma(x))
MOONLET_SPECIAL1(Digamma, special::digamma(x))
MOONLET_SPECIAL2(PolygammaAbove0, special::polygamma(x, y))
MOONLET_SPECIAL2(SpecialZeta, special::zeta(x, y))
MOONLET_SPECIAL2(Igamma, special::igamma(x, y))
MOONLET_SPECIAL2(Igammac, special::igammac(x, y))
MOONLET_SPECIAL1(SpecialErfcx, special::erfcx(x))
MOONLET_SPECIAL1(SpecialNdtr, special::ndtr(x))
MOONLET_SPECIAL1(SpecialLogNdtr, special::log_ndtr(x))
MOONLET_SPECIAL1(SpecialNdtri, special::ndtri(x))
MOONLET_SPECIAL1(I0, special::i0(x))
MOONLET_SPECIAL1(SpecialI0e, special::i0e(x))
MOONLET_SPECIAL1(SpecialI1, special::i1(x))
MOONLET_SPECIAL1(SpecialI1e, special::i1e(x))
MOONLET_SPECIAL1(SpecialModifiedBesselK0, special::k0(x, false))
MOONLET_SPECIAL1(SpecialModifiedBesselK1, special::k1(x, false))
MOONLET_SPECIAL1(SpecialScaledModifiedBesselK0, special::k0(x, true))
MOONLET_SPECIAL1(SpecialScaledModifiedBesselK1, special::k1(x, true))
MOONLET_SPECIAL1(SpecialBesselJ0, special::bessel_j0(x))
MOONLET_SPECIAL1(SpecialBesselJ1, special::bessel_j1(x))
MOONLET_SPECIAL1(SpecialBesselY0, special::bessel_y0(x))
MOONLET_SPECIAL1(SpecialBesselY1, special::bessel_y1(x))
MOONLET_SPECIAL1(SpecialSphericalBesselJ0, special::spherical_bessel_j0(x))
MOONLET_SPECIAL1(SpecialAiryAi, special::airy_ai(x))
MOONLET_SPECIAL2(SpecialChebyshevPolynomialT, special::chebyshev_t(x, y))
MOONLET_SPECIAL2(SpecialChebyshevPolynomialU, special::chebyshev_u(x, y))
MOONLET_SPECIAL2(SpecialChebyshevPolynomialV, special::chebyshev_v(x, y))
MOONLET_SPECIAL2(SpecialChebyshevPolynomialW, special::chebyshev_w(x, y))
MOONLET_SPECIAL2(SpecialShiftedChebyshevPolynomialT, special::chebyshev_t(2 * x - 1, y))
MOONLET_SPECIAL2(SpecialShiftedChebyshevPolynomialU, special::chebyshev_u(2 * x - 1, y))
MOONLET_SPECIAL2(SpecialShiftedChebyshevPolynomialV, special::chebyshev_v(2 * x - 1, y))
MOONLET_SPECIAL2(SpecialShiftedChebyshevPolynomialW, special::chebyshev_w(2 * x - 1, y))
MOONLET_SPECIAL2(SpecialHermitePolynomialH, special::hermite(x, y, 2))
MOONLET_SPECIAL2(SpecialHermitePolynomialHe, special::hermite(x, y, 1))
MOONLET_SPECIAL2(SpecialLaguerrePolynomialL, special::laguerre(x, y))
MOONLET_SPECIAL2(SpecialLegendrePolynomialP, special::legendre(x, y))
// clang-format on

#undef MOONLET_SPECIAL1
#undef MOONLET_SPECIAL2

}  // namespace MOONLET_FUNCTOR_NAMESPACE
}  // namespace moonlet
#ifdef HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#endif  // toggle
