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

// (1 + 2 x / sqrt(pi)) exp(x^2) erfc(x) for x >= 0, by a series in (x - k) / (x + k), as Shepherd
// and Laframboise 1981 do; if Short with the digits that results in float32 need.
template <bool Short, class V>
MOONLET_FN V scaled_erfcx(V x) {
  const V one(1);
  if constexpr (Short) {
    static constexpr double kPowers[] = {
        0.831761997341,    -0.238508393002,  0.0116445380387,  0.0581353814072,   -0.0289635484398,
        -0.00147533856684, 0.00455228948241, 2.61449726153e-4, -8.04319701086e-4, -1.3037993049e-4,
        1.32468104696e-4,  2.71685624263e-5, -1.35387865113e-5};
    return vpoly(kPowers, one - V(4) / (x + V(2)));
  } else {
    static constexpr double kSeries[] = {
        0.80065282958110175,     -0.19304567499409284,    0.025603940154920586,
        0.0083959615499951242,   -0.0071854025618283813,  0.0028254865404868032,
        -7.489755310512829e-4,   1.3488113774695677e-4,   -1.2928319714956377e-5,
        -7.3194602334827293e-7,  4.3047134031145283e-7,   -3.7885055558386234e-8,
        -7.7037998785763197e-9,  1.8440460001519026e-9,   9.2733882382335552e-11,
        -6.5523042631497241e-11, 1.4890793881236795e-13,  2.2927471740008874e-12,
        -6.2919951933098161e-14, -8.5474305145615822e-14, 2.7039515499526849e-15,
        3.4460131156477768e-15,  -5.354391053747555e-17,  -1.4747882849176963e-16,
        -2.8132475915181116e-18, 6.4526611354408135e-18};
    return chebyshev(kSeries, one - V(7) / (x + V(3.5)));
  }
}

// exp(x^2) erfc(x)
template <bool Short = false, class V>
MOONLET_LONG_FN V erfcx(V x) {
  const V size = vabs(x), under = vfma(size, V(1.12837916709551257390), V(1));
  const V series = scaled_erfcx<Short>(size) / under;
  V y = select(size > V(1e9), V(0.56418958354775628695) / size, series);
  y = select(x == V(0), V(1), y);
  if (!any(x < V(0))) return y;
  const V below = V(2) * exp_square(1, x) - y;
  return select(x < V(0), select(x < V(-26.7), V(kInf), below), y);
}

// y times erfinv(z) / z for the z with w = -log(1 - z^2), in powers of w and, beyond 5, of its
// root, as in Giles 2010: here with the digits of float32 up to the w of its largest z. What the
// factor differs by from 1, or from the root, is added last, which keeps digits.
template <class V>
MOONLET_LONG_FN V erfinv_scaled_in_float32(V y, V w) {
  static constexpr double kNear[] = {
      0.50140936,      0.2466402791,    -0.004177392875, -0.001252726392, 2.183493862e-4,
      -4.972419689e-6, -3.463985268e-6, 4.681313481e-7,  2.33359672e-8,   -8.93192597e-9};
  static constexpr double kFar[] = {
      -0.1666798813,   0.003718519495, 0.007049698224,  -0.005297638794, 0.00377721738,
      -0.002537664861, 0.001320184545, -2.932434524e-4, -1.800441478e-4, 1.115385808e-4};
  return either(
      w < V(5), [&]() MOONLET_LAMBDA { return vfma(y, vpoly(kNear, w - V(2.5)), y); },
      [&]() MOONLET_LAMBDA {
        const V root = vsqrt(w);
        return vfma(y, vpoly(kFar, root - V(3.125)), y * root);
      });
}
// With those of float64 for w up to 745, far out in powers of the root's inverse.
template <class V>
MOONLET_LONG_FN V erfinv_scaled_in_float64(V y, V w) {
  static constexpr double kNear[] = {
      0.50140935111079191,     0.246640276744167,       -0.0041773177243836239,
      -0.0012527079078110321,  2.1825026434406122e-4,   -4.9960795988502066e-6,
      -3.4166195965650868e-6,  4.7872521852390001e-7,   1.3416803755242822e-8,
      -1.0861168938287873e-8,  9.0730364954055824e-10,  1.1960698817209523e-10,
      -3.1102786722264755e-11, 9.115660381671944e-13,   5.3563431663930547e-13,
      -7.6126691301384966e-14, -2.8811110175240593e-15, 1.8967293541435922e-15,
      -1.3661917890666732e-16, -2.6828646429085144e-17, 4.9093939218883456e-18,
      1.7009080893935911e-19,  -6.8907472637826659e-20};
  static constexpr double kMiddle[] = {
      -0.16636342559076763,   0.0046924418689637546,  0.0059731695149947026,
      -0.0042941650304930572, 0.0029508202892834198,  -0.0019930124529879305,
      0.001078453903770699,   -3.5776989814824817e-4, -1.2267569383526286e-5,
      9.3562032204356498e-5,  -5.3541125497570745e-5, 9.8609260020634411e-6,
      5.8602440205504012e-6,  -5.0108593667540343e-6, 1.4131336563553796e-6,
      2.1569480963803892e-7,  -3.5575190408588168e-7, 1.4116768493062395e-7,
      -1.1431976214241103e-8, -2.0449516166061633e-8, 1.3307193618507702e-8,
      -1.9418402645544892e-9, -1.5294019303271129e-9, 5.6703828159322915e-10};
  static constexpr double kFar[] = {
      -0.017598148305667051,   -0.18897227870749538,    -0.19606700454373435,
      1.1775998925852173,      -2.3205229019784701,     6.1708933320057132,
      -23.293187433050675,     99.052339543193164,      -452.13613795641876,
      2197.6300545709518,      -11223.784182285787,     59339.623777883582,
      -3.2449010002846216e+5,  1.9415248605454526e+6,   -1.1155210527733734e+7,
      2.3128691403217369e+7,   -9.573472437267215e+7,   1.246052024128062e+10,
      -6.6737111965775948e+10, -1.6233286488808598e+12, 9.8128724328682255e+12,
      2.1216001917409891e+14,  -1.4758882838844036e+15, -1.8545405820981949e+16,
      1.3659668294412118e+17,  1.1383940727959829e+18,  -8.4369376782016461e+18,
      -4.1604910357655975e+19, 3.053191605571738e+20,   7.3362959977049262e+20,
      -5.2792243027978161e+21};
  return either(
      w < V(5), [&]() MOONLET_LAMBDA { return vfma(y, vpoly(kNear, w - V(2.5)), y); },
      [&]() MOONLET_LAMBDA {
        const V root = vsqrt(w), scaled = y * root;
        return either(
            root < V(4.2),
            [&]() MOONLET_LAMBDA { return vfma(y, vpoly(kMiddle, root - V(3.2)), scaled); },
            [&]() MOONLET_LAMBDA {
              return vfma(scaled, vpoly(kFar, V(1) / root - V(0.137)), scaled);
            });
      });
}

// The x with erf(x) = y.
template <class V>
MOONLET_FN V erfinv(V y) {
  const V size = vabs(y), one(1), w = -vlog((one - size) * (one + size));
  V x;
  if constexpr (is_float32<V>)
    x = erfinv_scaled_in_float32(y, w);
  else
    x = erfinv_scaled_in_float64(y, w);
  return select(size < one, vcopysign(x, y), select(size == one, vcopysign(V(kInf), y), V(kNaN)));
}

// The normal distribution function and its logarithm. erfc takes what the quotient of x by the root
// of 2 drops.
template <class V>
MOONLET_FN V ndtr(V x) {
  const V root(kSqrtHalf), z = -x * root;
  const V dropped = vproduct_rest(-x, root, z) - x * V(kSqrtHalfRest<V>);
  return V(0.5) * verfc_sum(z, select(vabs(x) < V(40), dropped, V(0)));
}
template <bool Short = false, class V>
MOONLET_LONG_FN V log_ndtr(V x) {
  return either(
      x < V(-1),
      [&]() MOONLET_LAMBDA {
        return vlog(V(0.5) * erfcx<Short>(-x * V(kSqrtHalf))) - V(0.5) * x * x;
      },
      [&]() MOONLET_LAMBDA { return vlog1p(-ndtr(-x)); });
}

// The derivative of log_ndtr: the normal density over ndtr, both scaled as erfcx above; for x < 0
// the exponential has gone from both.
template <class V>
MOONLET_LONG_FN V log_ndtr_gradient(V x) {
  const V zero(0), one(1), root(0.79788456080286535588);
  const V size = select(x < zero, -x, vmin(x, V(50)));
  V under = scaled_erfcx<is_float32<V>>(size * V(kSqrtHalf));
  V over = vfma(size, V(0.63661977236758134308), root);
  if (any(!(x < zero))) {
    const V square = size * size, half = V(0.5) * vproduct_rest(size, size, square);
    const V plain = vexp(V(-0.5) * square),
            power = select(x < zero, one, vfma(-plain, half, plain));
    over = over * power;
    const V both = vfma(size, root + root, one) + vfma(-under, power, one);
    under = select(x < zero, under, both);
  }
  return select(x != x, x, over / under);
}

// The x with ndtr(x) = p. The difference from 1/2 keeps its digits.
template <class V>
MOONLET_FN V ndtri(V p) {
  const V one(1), half(0.5), w = -vlog(V(4) * p * (one - p));
  const V x = erfinv_scaled_in_float64((p - half) * V(4 * kSqrtHalf), w);
  const V ends = select(p == V(0), V(-kInf), select(p == one, V(kInf), V(kNaN)));
  return select((p > V(0)) && (p < one), x, ends);
}

}  // namespace special
}  // namespace MOONLET_FUNCTOR_NAMESPACE
}  // namespace moonlet
#ifdef HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#endif  // toggle
