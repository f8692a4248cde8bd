// tensor/functors/functors_special-inl.h: the functors of family `special`, named as those of
// functors-inl.h. The short ones are expressions; the others are functions of tensor/special/,
// most of which compute in double: those in its -inl.h files for vectors, too, the others for
// single values only.
//
// Included after functors-inl.h, and as often.
#if defined(MOONLET_TENSOR_FUNCTORS_SPECIAL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MOONLET_TENSOR_FUNCTORS_SPECIAL_INL_H_
#undef MOONLET_TENSOR_FUNCTORS_SPECIAL_INL_H_
#else
#define MOONLET_TENSOR_FUNCTORS_SPECIAL_INL_H_
#endif

#include "tensor/functors/functors-inl.h"
#include "tensor/special/airy-inl.h"
#include "tensor/special/bessel-inl.h"
#include "tensor/special/digamma-inl.h"
#include "tensor/special/gamma-inl.h"
#include "tensor/special/incomplete_gamma-inl.h"
#include "tensor/special/modified_bessel-inl.h"
#include "tensor/special/normal-inl.h"
#include "tensor/special/polynomials-inl.h"

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
// grad / (x (1 - x)); NaN outside of 0 to 1, or 0 where eps limits x.
struct LogitGradX {
  template <class V>
  MOONLET_FN V operator()(V grad, V x, V eps) const {
    const V low = vmax(eps, V(0));
    const V outside = select(eps < V(0), V(NAN), V(0));
    return select((x < low) || (x > V(1) - low), outside, grad / (x * (V(1) - x)));
  }
};

struct Lgamma {
  template <class V>
  MOONLET_FN V operator()(V x) const {
    return vlgamma(x);
  }
};
struct SpecialNdtr {
  template <class V>
  MOONLET_FN V operator()(V x) const {
    return special::ndtr(x);
  }
};
struct SpecialLogNdtrGradX {
  template <class V>
  MOONLET_FN V operator()(V grad, V x) const {
    return grad * special::log_ndtr_gradient(x);
  }
};
struct Erfinv {
  template <class V>
  MOONLET_FN V operator()(V x) const {
    return special::erfinv(x);
  }
};

// Vectors and single values. kShort says that the results are float32.
#define MOONLET_SPECIAL1(NAME, ...)                                               \
  struct NAME {                                                                   \
    template <class V>                                                            \
    MOONLET_FN V operator()(V value) const {                                      \
      [[maybe_unused]] constexpr bool kShort = is_float32<V>;                     \
      return in_double([](auto x) MOONLET_LAMBDA { return __VA_ARGS__; }, value); \
    }                                                                             \
  };
#define MOONLET_SPECIAL2(NAME, ...)                                                               \
  struct NAME {                                                                                   \
    template <class V>                                                                            \
    MOONLET_FN V operator()(V first, V second) const {                                            \
      [[maybe_unused]] constexpr bool kShort = is_float32<V>;                                     \
      return in_double([](auto a, auto x) MOONLET_LAMBDA { return __VA_ARGS__; }, first, second); \
    }                                                                                             \
  };
// The incomplete gamma functions: with the digits of float64 one lane after the other.
#define MOONLET_INCOMPLETE_GAMMA(NAME, FUNCTION, UPPER)                                   \
  struct NAME {                                                                           \
    template <class V>                                                                    \
    MOONLET_FN V operator()(V first, V second) const {                                    \
      const auto each = [](double a, double x) { return special::FUNCTION(a, x); };       \
      if constexpr (is_float32<V>)                                                        \
        return in_double([](auto a, auto x)                                               \
                             MOONLET_LAMBDA { return special::gamma_part(a, x, UPPER); }, \
                         first, second);                                                  \
      else                                                                                \
        return each_lane(each, first, second);                                            \
    }                                                                                     \
  };
struct StandardGammaGradConcentration {
  template <class V>
  MOONLET_FN V operator()(V grad, V concentration, V result) const {
    const auto gradient = [](auto a, auto x) MOONLET_LAMBDA {
      const auto each = [](double of, double at) {
        return special::gamma_quantile_gradient(of, at);
      };
      return each_lane(each, a, x);
    };
    return grad * in_double(gradient, concentration, result);
  }
};
// A polynomial of order n at x, an expression of `at`: of low orders by the recurrence from p_1 to
// `NEXT`, made of k, here and before, others by the function of single values.
#define MOONLET_POLYNOMIAL(NAME, AT, FIRST, NEXT, ...)                                          \
  struct NAME {                                                                                 \
    template <class V>                                                                          \
    MOONLET_FN V operator()(V value, V order) const {                                           \
      return in_double(                                                                         \
          [](auto at, auto whole) MOONLET_LAMBDA {                                              \
            using D = decltype(at);                                                             \
            const D x = AT, n = vtrunc(whole);                                                  \
            const auto low = special::is_low_order(x, n);                                       \
            const auto next = [&]([[maybe_unused]] D k, D here, D before)                       \
                                  MOONLET_LAMBDA { return NEXT; };                              \
            const D y = special::recurrence(select(low, n, D(0)), D(FIRST), next);              \
            if (!any(!low)) return y;                                                           \
            const auto each = [](double x, double n) { return __VA_ARGS__; };                   \
            return select(low, y, each_lane(each, select(low, D(0), x), select(low, D(0), n))); \
          },                                                                                    \
          value, order);                                                                        \
    }                                                                                           \
  };

// clang-format off
MOONLET_SPECIAL1(Digamma, special::digamma<kShort>(x))
MOONLET_SPECIAL2(PolygammaAbove0, special::polygamma<kShort>(a, x))
MOONLET_SPECIAL2(SpecialZeta, special::zeta(a, x))
MOONLET_INCOMPLETE_GAMMA(Igamma, igamma, false)
MOONLET_INCOMPLETE_GAMMA(Igammac, igammac, true)
MOONLET_SPECIAL1(SpecialErfcx, special::erfcx<kShort>(x))
MOONLET_SPECIAL1(SpecialLogNdtr, special::log_ndtr<kShort>(x))
MOONLET_SPECIAL1(SpecialNdtri, special::ndtri(x))
MOONLET_SPECIAL1(I0, special::i0<kShort>(x))
MOONLET_SPECIAL1(SpecialI0e, special::i0e<kShort>(x))
MOONLET_SPECIAL1(SpecialI1, special::i1<kShort>(x))
MOONLET_SPECIAL1(SpecialI1e, special::i1e<kShort>(x))
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
MOONLET_POLYNOMIAL(SpecialChebyshevPolynomialT, at, x,
                   (x + x) * here - before, special::chebyshev_t(x, n))
MOONLET_POLYNOMIAL(SpecialChebyshevPolynomialU, at, x + x,
                   (x + x) * here - before, special::chebyshev_u(x, n))
MOONLET_POLYNOMIAL(SpecialChebyshevPolynomialV, at, x + x - D(1),
                   (x + x) * here - before, special::chebyshev_v(x, n))
MOONLET_POLYNOMIAL(SpecialChebyshevPolynomialW, at, x + x + D(1),
                   (x + x) * here - before, special::chebyshev_w(x, n))
MOONLET_POLYNOMIAL(SpecialShiftedChebyshevPolynomialT, at + at - D(1), x,
                   (x + x) * here - before, special::chebyshev_t(x, n))
MOONLET_POLYNOMIAL(SpecialShiftedChebyshevPolynomialU, at + at - D(1), x + x,
                   (x + x) * here - before, special::chebyshev_u(x, n))
MOONLET_POLYNOMIAL(SpecialShiftedChebyshevPolynomialV, at + at - D(1), x + x - D(1),
                   (x + x) * here - before, special::chebyshev_v(x, n))
MOONLET_POLYNOMIAL(SpecialShiftedChebyshevPolynomialW, at + at - D(1), x + x + D(1),
                   (x + x) * here - before, special::chebyshev_w(x, n))
MOONLET_POLYNOMIAL(SpecialHermitePolynomialH, at, x + x, D(2) * (x * here - k * before),
                   special::hermite(x, n, 2))
MOONLET_POLYNOMIAL(SpecialHermitePolynomialHe, at, x, x * here - k * before,
                   special::hermite(x, n, 1))
MOONLET_POLYNOMIAL(SpecialLaguerrePolynomialL, at, D(1) - x,
                   ((k + k + D(1) - x) * here - k * before) / (k + D(1)), special::laguerre(x, n))
MOONLET_POLYNOMIAL(SpecialLegendrePolynomialP, at, x,
                   ((k + k + D(1)) * x * here - k * before) / (k + D(1)), special::legendre(x, n))
// clang-format on

#undef MOONLET_SPECIAL1
#undef MOONLET_SPECIAL2
#undef MOONLET_INCOMPLETE_GAMMA
#undef MOONLET_POLYNOMIAL

}  // namespace MOONLET_FUNCTOR_NAMESPACE
}  // namespace moonlet
#ifdef HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#endif  // toggle
