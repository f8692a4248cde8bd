// tensor/special/normal-inl.h: the scaled and the inverse error function, the normal distribution,
// of vectors and single values. Included after functors-inl.h, and as often.
#if defined(MOONLET_TENSOR_SPECIAL_NORMAL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MOONLET_TENSOR_SPECIAL_NORMAL_INL_H_
#undef MOONLET_TENSOR_SPECIAL_NORMAL_INL_H_
#else
#define MOONLET_TENSOR_SPECIAL_NORMAL_INL_H_
#endif

#include "tensor/special/series-inl.h"

#ifdef HWY_NAMESPACE
HWY_BEFORE_NAMESPACE();
#endif
namespace moonlet {
namespace MOONLET_FUNCTOR_NAMESPACE {
namespace special {

inline constexpr double kSqrtHalf = 0.70710678118654752440;
// What float32 and float64 lack of it.
template <class V>
inline constexpr double kSqrtHalfRest = is_float32<V> ? 1.21016171e-08 : -4.8336466567264567e-17;

// exp(x^2) erfc(x). For x >= 0 a Chebyshev series of (1 + 2 x) erfcx(x) in (x - 3.75) / (x + 3.75),
// the form of Shepherd and Laframboise 1981.
template <class V>
MOONLET_LONG_FN V erfcx(V x) {
  static constexpr double kSeries[] = {
      1.1775789345674017,     -0.004590054580646478,   -0.08424913336651792,
      0.05920993999819189,    -0.026658668435305753,   0.009074997670705265,
      -0.002413163540417608,  0.0004907758365258086,   -6.916973302501207e-05,
      4.13902798607301e-06,   7.74038306619849e-07,    -2.1886401049234397e-07,
      1.076499946567091e-08,  4.521959811218287e-09,   -7.754400208831351e-10,
      -6.318088340886684e-11, 2.86879501093067e-11,    1.9455868545777347e-13,
      -9.65469674843344e-13,  3.25254814814874e-14,    3.3478119482868056e-14,
      -1.864562880419313e-15, -1.2507950530688648e-15, 7.418235256624044e-17,
      5.068148904796111e-17,  -2.2370566594359995e-18, -2.187342944303018e-18};
  const V size = vabs(x), twice = size + size;
  const V series = chebyshev(kSeries, (size - V(3.75)) / (size + V(3.75))) / (V(1) + twice);
  V y = select(size > V(1e9), V(0.56418958354775628695) / size, series);
  y = select(x == V(0), V(1), y);
  if (!any(x < V(0))) return y;
  const V below = V(2) * exp_square(1, x) - y;
  return select(x < V(0), select(x < V(-26.7), V(kInf), below), y);
}

// erfinv(y) / y within 1e-9 of itself, for w = -log(1 - y^2) up to 106: powers of w, beyond 5 of
// its root, as in Giles 2010.
template <class V>
MOONLET_LONG_FN V erfinv_factor(V w) {
  static constexpr double kNear[] = {
      1.5014093511107919,     0.24664027678526775,    -0.0041773178101400348,
      -0.0012527080836222809, 0.00021825064939995002, -4.9958814487600595e-6,
      -3.4171152327450104e-6, 4.7864482434002713e-7,  1.3691496015199152e-8,
      -1.0854397093112377e-8, 8.327000821030813e-10,  1.2302888973120804e-10,
      -2.1203565131819004e-11};
  static constexpr double kMiddle[] = {
      2.8329767984568275,     1.0016752728308351,      0.0094455496324594829,
      -0.0076436809927128791, 0.0056846960833066891,   -0.0035598680674442075,
      0.0014870701882079563,  -0.00014541601253255285, -0.00029406101809841497,
      0.0002018832620730555,  -2.8787270397618352e-5,  -2.5292471921966145e-5,
      9.6331276292774886e-6};
  static constexpr double kFar[] = {
      6.8690196520440251,     1.0085956221257748,     -0.00051265662621634088,
      6.2817989390550483e-6,  6.0584107375839343e-6,  -1.6172288568189197e-6,
      3.1175190623672047e-7,  -5.450741400431082e-8,  9.414483074518023e-9,
      -1.2814860795979978e-9, 8.6120440821561705e-11, -2.3871297673971758e-11,
      1.1030242351992288e-11, -1.3501098081242882e-12};
  return either(
      w < V(5), [&]() MOONLET_LAMBDA { return powers(kNear, w - V(2.5)); },
      [&]() MOONLET_LAMBDA {
        const V root = vsqrt(w);
        return either(
            root < V(4.1), [&]() MOONLET_LAMBDA { return powers(kMiddle, root - V(3)); },
            [&]() MOONLET_LAMBDA { return powers(kFar, root - V(7)); });
      });
}

// The x with erf(x) = y, with the factor's digits.
template <class V>
MOONLET_FN V erfinv_near(V y) {
  const V size = vabs(y), one(1);
  const V x = y * erfinv_factor(-vlog((one - size) * (one + size)));
  return select(size < one, x, select(size == one, vcopysign(V(kInf), y), V(kNaN)));
}

// By one of Halley's steps from there; near the ends on erfc, of which 1 - |y| loses nothing.
template <class V>
MOONLET_LONG_FN V erfinv(V y) {
  const V size = vabs(y), one(1), near = erfinv_near(y), x = vabs(near);
  const V miss = select(size > V(0.5), (one - size) - verfc(x), verf(x) - size);
  const V step = miss * V(0.88622692545275801365) / exp_square(-1, x);
  return select(size < one, vcopysign(x - step / (one + x * step), y), near);
}

// The normal distribution function and its logarithm. What the quotient of x by the root of 2 drops
// goes to erfc with its derivative.
template <class V>
MOONLET_FN V ndtr(V x) {
  const V root(kSqrtHalf), z = -x * root;
  const V dropped = vproduct_rest(-x, root, z) - x * V(kSqrtHalfRest<V>);
  const V slope = V(1.12837916709551257390) * vexp(-z * z);
  return V(0.5) * (verfc(z) - select(vabs(x) < V(40), slope * dropped, V(0)));
}
template <class V>
MOONLET_LONG_FN V log_ndtr(V x) {
  return either(
      x < V(-1),
      [&]() MOONLET_LAMBDA { return vlog(V(0.5) * erfcx(-x * V(kSqrtHalf))) - V(0.5) * x * x; },
      [&]() MOONLET_LAMBDA { return vlog1p(-ndtr(-x)); });
}

// One of Halley's steps from u towards ndtr(-u) = q, on the logarithm.
template <class V>
MOONLET_LONG_FN V normal_tail_step(V u, V log_q) {
  const V scaled = erfcx(u * V(kSqrtHalf));
  const V miss = vlog(V(0.5) * scaled) - V(0.5) * u * u - log_q;
  const V hazard = V(0.79788456080286535588) / scaled, step = -miss / hazard;
  return u - step / (V(1) - V(0.5) * step * (u - hazard));
}

// The u > 0 with ndtr(-u) = q for q < 0.25: a step from what erfinv's factor gives; two from the
// rational form 26.2.23 of Abramowitz and Stegun where that does not reach.
template <class V>
MOONLET_LONG_FN V normal_tail_inverse(V q) {
  const V log_q = vlog(q), one(1);
  const V u = either(
      log_q > V(-100),
      [&]() MOONLET_LAMBDA {
        const V factor = erfinv_factor(-vlog(V(4) * q * (one - q)));
        return (one - q - q) * factor * V(2 * kSqrtHalf);
      },
      [&]() MOONLET_LAMBDA {
        const V t = vsqrt(V(-2) * log_q);
        const V first = t - (V(2.515517) + t * (V(0.802853) + t * V(0.010328))) /
                                (one + t * (V(1.432788) + t * (V(0.189269) + t * V(0.001308))));
        return normal_tail_step(first, log_q);
      });
  return normal_tail_step(u, log_q);
}

// The x with ndtr(x) = p: for results in float32 with the digits of erfinv's factor.
template <class V>
MOONLET_FN V ndtri_ends(V p, V x) {
  const V ends = select(p == V(0), V(-kInf), select(p == V(1), V(kInf), V(kNaN)));
  return select((p > V(0)) && (p < V(1)), x, ends);
}
template <class V>
MOONLET_FN V ndtri_near(V p) {
  const V one(1), w = -vlog(V(4) * p * (one - p));
  return ndtri_ends(p, (p + p - one) * erfinv_factor(w) * V(2 * kSqrtHalf));
}
template <class V>
MOONLET_LONG_FN V ndtri(V p) {
  const V one(1), q = vmin(p, one - p);
  const V x = either(
      q < V(0.25), [&]() MOONLET_LAMBDA { return vcopysign(normal_tail_inverse(q), p - V(0.5)); },
      [&]() MOONLET_LAMBDA { return V(2 * kSqrtHalf) * erfinv(p + p - one); });
  return ndtri_ends(p, x);
}

}  // namespace special
}  // namespace MOONLET_FUNCTOR_NAMESPACE
}  // namespace moonlet
#ifdef HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#endif  // toggle
