// tensor/cpu/simd/simd_erf-inl.h: the error function of simd::Vec and its complement, within 2 ulp
// as in simd_exp-inl.h. Included by simd-inl.h, once per Highway target.
#if defined(MOONLET_TENSOR_CPU_SIMD_ERF_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MOONLET_TENSOR_CPU_SIMD_ERF_INL_H_
#undef MOONLET_TENSOR_CPU_SIMD_ERF_INL_H_
#else
#define MOONLET_TENSOR_CPU_SIMD_ERF_INL_H_
#endif

#include "hwy/highway.h"
#include "tensor/cpu/simd/simd-inl.h"
#include "tensor/cpu/simd/simd_exp-inl.h"

HWY_BEFORE_NAMESPACE();
namespace moonlet {
namespace HWY_NAMESPACE {

// erf(x) / x - 1 for |x| <= 1.
template <class T>
HWY_INLINE Vec<T> erf_gradient(Vec<T> x) {
  const Vec<T> z = x * x;
  if constexpr (sizeof(T) == 4)
    return poly(z, 0.128379166, -0.376126379, 0.112837829, -0.0268654451, 0.00522107491,
                -0.000848471129, 0.000112705442, -9.68013592e-06);
  else
    return poly(z, 0.12837916709551257, -0.37612638903183752, 0.1128379167095512,
                -0.026866170645129841, 0.0052239776254232983, -0.00085483270219348296,
                0.00012055332902888735, -1.4925647567519332e-5, 1.6462045441468419e-6,
                -1.6364642158167615e-7, 1.4792401209404813e-8, -1.216456005728345e-9,
                8.7090451290531067e-11, -4.2309458242953378e-12);
}

// (1 + 2 a) exp(a^2) erfc(a) for a >= 0.7, of t = (a - k) / (a + k), less its `first` coefficient
// and divided by t: the form of Shepherd and Laframboise 1981.
template <class T>
HWY_INLINE Vec<T> scaled_erfc_rest(Vec<T> t) {
  if constexpr (sizeof(T) == 4)
    return poly(t, -0.12235676762942466, -0.099024556406065935, 0.15763018559171244,
                -0.102966616341606, 0.032756470862165008, 0.00092798883414432914,
                -0.0043517139905811308, 0.0005053453505163633, 0.00053859332932299145,
                -0.00010213653653712848);
  else
    return poly(t, -0.1400091801376194, -0.010555596332223091, 0.097519095153256553,
                -0.11508959815985704, 0.087983153824891352, -0.048823325836982997,
                0.019099330943620159, -0.004215019782397839, -0.00030226791439723161,
                0.0005643834200363025, -0.00012151199367351987, -4.2777381267583241e-5,
                2.4258297060600834e-5, 2.3136588152064657e-6, -3.8049642812162459e-6,
                -1.7387186372943011e-8, 5.8054579630503146e-7, -3.5277014884936938e-8,
                -7.0939049706325621e-8, 1.2449407520894226e-8);
}

// erfc(given + rest) for given >= 0.7 and a rest that is small beside it, with the bits that the
// square and the quotient drop.
template <class T>
HWY_INLINE Vec<T> erfc_far(Vec<T> given, Vec<T> rest) {
  const Vec<T> a = vmin(given, constant<T>(10.3, 28)), k = constant<T>(2.5, 3.5), one(1);
  const Vec<T> first = constant<T>(1.2648381844671796, 1.2423492448711544),
               first_rest = constant<T>(-3.42217852e-08, 0);
  const Vec<T> t = (a - k) / (a + k), p = scaled_erfc_rest(t);
  const Vec<T> over = vfma(p, t, first), over_rest = vfma(p, t, first - over) + first_rest;
  const Vec<T> twice = a + a, under = twice + one, under_rest = twice - (under - one);
  const Vec<T> inverse = one / under, q = over * inverse;
  const Vec<T> q_rest = (vfma(-q, under, over) + over_rest - q * under_rest) * inverse;
  const Vec<T> square = a * a, dropped = vproduct_rest(a, a, square), n = exp_exponent(-square);
  Vec<T> lost;
  const Vec<T> power = expm1_near(exp_rest(-square, n, lost));
  const Vec<T> low = vfma(lost - dropped, vfma(q, power, q), q_rest);
  const Vec<T> gradient = rest * Vec<T>(-1.1283791670955126);
  return scale_by_power(q + vfma(q, power, low + vfma(gradient, power, gradient)), n);
}

HWY_INLINE Vec<float> verf(Vec<float> x) {
  using V = Vec<float>;
  const V a = vabs(x), near = vfma(erf_gradient(x), x, x);
  // log(erfc(a)) from 1 to 4: here its digits before the point count for nothing.
  const V far =
      V(1) - exp_normal(poly(vmin(a, V(4)), 0.000188035861, -1.12957835, -0.633219898, -0.108418547,
                             0.0252082404, -0.00420455635, 0.000441335345, -2.1686772e-05));
  return select((a < V(1)) || (x != x), near, vcopysign(far, x));
}
// As 1 - exp(-l) for l = -log(erfc(a)), which is a times a polynomial; the bits that both drop go
// to the exponential. From 6 on it is 1.
HWY_INLINE Vec<double> verf(Vec<double> x) {
  using V = Vec<double>;
  const V a = vmin(vabs(x), V(6)), one(1), first(1.1283791670955126);
  const V p = poly(a, 0.63661977236758274, 0.10277260330182154, -0.019128447005612306,
                   -2.0919468993970822e-4, 0.0016962063586264432, -5.9012545582024518e-4,
                   2.5878376041086278e-5, 6.4492194520533335e-5, -2.9724250356936066e-5,
                   3.4069606480348707e-6, 2.8361654737663125e-6, -1.7430853613285554e-6,
                   3.3791929565205507e-7, 1.3602023214772564e-7, -1.410966852677165e-7,
                   6.5437160935918231e-8, -2.0859498492137965e-8, 4.9697318429051006e-9,
                   -9.0237735001854339e-10, 1.2391849493569702e-10, -1.2504740115161006e-11,
                   8.7613394873407881e-13, -3.8094714624111413e-14, 7.7415109674300256e-16);
  const V gradient = vfma(p, a, first),
          gradient_rest = vfma(p, a, first - gradient) + V(1.533545961316588e-17);
  const V l = gradient * a, dropped = vfma(gradient_rest, a, vproduct_rest(gradient, a, l));
  const V n = exp_exponent(-l);
  V lost;
  const V r = exp_rest(-l, n, lost), power = power_of_two(n);
  const V y = vfma(-(expm1_near(r) + (lost - dropped)), power, one - power);
  return select(x != x, x, vcopysign(y, x));
}

// erfc(x + rest) for a rest that is small beside x.
template <class T>
HWY_INLINE Vec<T> verfc_sum(Vec<T> x, Vec<T> rest) {
  const Vec<T> a = vabs(x), one(1), zero(0), z = x * x, gradient = erf_gradient(x);
  const Vec<T> far = erfc_far(a, select(x < zero, -rest, rest));
  // The density takes few digits.
  const Vec<T> density = vfma(z, vfma(z, Vec<T>(0.5), -one), one) * Vec<T>(1.1283791670955126);
  const Vec<T> erf = vfma(gradient, x, x),
               erf_rest = vfma(density, rest, vfma(gradient, x, x - erf));
  const Vec<T> outer = select(x < zero, (one - far) + one, far);
  return select((a < Vec<T>(0.7)) || (x != x), (one - erf) - erf_rest, outer);
}
template <class T>
HWY_INLINE Vec<T> verfc(Vec<T> x) {
  return verfc_sum(x, Vec<T>(0));
}

// The normal distribution function: for float32 within 2^-26, by a polynomial of the logarithm of
// its smaller side, which is 0 from 9.9 on. At 10 the polynomial is below what exp_normal takes.
HWY_INLINE Vec<float> vnormal_cdf(Vec<float> x) {
  const Vec<float> a = vabs(x), zero(0), end(9.9);
  const Vec<float> power =
      exp_normal(poly(vmin(a, end), -0.693147165505, -0.797885686863, -0.318296586131,
                      -0.0363937144821, 0.00490434582749, -0.000101111112313, -0.000126531860176,
                      2.67698111257e-5, -1.92143956295e-6));
  const Vec<float> rest = select(a < end, power, zero);
  return select(x < zero, rest, Vec<float>(1) - rest);
}
HWY_INLINE Vec<double> vnormal_cdf(Vec<double> x) {
  return Vec<double>(0.5) * verfc(x * Vec<double>(-0.70710678118654752440));
}

}  // namespace HWY_NAMESPACE
}  // namespace moonlet
HWY_AFTER_NAMESPACE();

#endif  // toggle
