// tensor/cpu/simd/simd_gamma-inl.h: the logarithm of the gamma function of simd::Vec: for float32
// in float64, where polynomials of 10 digits do; for float64 the C library's, lane by lane.
// Included by simd-inl.h, once per Highway target.
#if defined(MOONLET_TENSOR_CPU_SIMD_GAMMA_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MOONLET_TENSOR_CPU_SIMD_GAMMA_INL_H_
#undef MOONLET_TENSOR_CPU_SIMD_GAMMA_INL_H_
#else
#define MOONLET_TENSOR_CPU_SIMD_GAMMA_INL_H_
#endif

#include "hwy/highway.h"
#include "tensor/cpu/simd/simd-inl.h"
#include "tensor/cpu/simd/simd_exp-inl.h"
#include "tensor/cpu/simd/simd_trig-inl.h"

HWY_BEFORE_NAMESPACE();
namespace moonlet {
namespace HWY_NAMESPACE {

// log(gamma(x)) for x >= 1: up to 3 with its zeros at 1 and 2 divided out, above Stirling's form
// (DLMF 5.11.1) with its series fitted.
HWY_INLINE Vec<double> log_gamma_above_1(Vec<double> x) {
  using V = Vec<double>;
  const V t = x - V(2);
  // The sum keeps the zero at 1 positive.
  const V near =
      V(0) + t * (x - V(1)) *
                 poly(t, 0.42278433509846714, -0.10031730153001821, 0.032965000552131661,
                      -0.012384199088411982, 0.0049986444619814763, -0.0021080354202493845,
                      0.00091533129637269139, -0.00040629521082443139, 0.00018283370421637044,
                      -8.1197536861007935e-5, 3.726165923978742e-5, -2.1069867673657714e-5,
                      9.8513177051079454e-6, -4.8921460447012432e-7, 2.0345105469746179e-7,
                      -2.4494311160743121e-6, 1.1660443077756478e-6);
  const Mask<double> is_near = x < V(3);
  if (!any(!is_near)) return near;
  const V inverse = V(1) / x;
  const V rest = inverse * poly(inverse * inverse, 0.083333333331399852, -0.0027777765182039504,
                                0.00079351488227286606, -0.00058971248872411082,
                                0.00073447431170343372, -0.00082282006125103317);
  const V far = (x - V(0.5)) * (vlog(x) - V(1)) + (V(0.41893853320467274178) + rest);
  return select(is_near, near, far);
}

// Below 1 by gamma(x + 1) = x gamma(x), below 0 by the reflection (DLMF 5.5.3).
HWY_INLINE Vec<double> log_gamma_in_float64(Vec<double> x) {
  using V = Vec<double>;
  const V zero(0), one(1), inf(HUGE_VAL), pi(3.14159265358979323846);
  const Mask<double> below_0 = x < zero, below_1 = x < one;
  const V up = select(below_0, one - x, select(below_1, x + one, x));
  V y = select(x < inf, log_gamma_above_1(up), x);
  if (!any(below_1)) return y;
  V factor = x;
  if (any(below_0)) factor = select(below_0, pi / vabs(vsin(pi * (x - vround(x)))), x);
  const V part = vlog(factor);
  y = select(below_0, part - y, select(below_1, y - part, y));
  y = select((x == vround(x)) && (x <= zero), inf, y);
  return select(x == -inf, inf, y);
}

HWY_INLINE Vec<double> vlgamma(Vec<double> x) {
  return each_lane([](double v) { return fn::vlgamma(v); }, x);
}
HWY_INLINE Vec<float> vlgamma(Vec<float> x) {
  return in_double([](Vec<double> v) HWY_ATTR { return log_gamma_in_float64(v); }, x);
}

}  // namespace HWY_NAMESPACE
}  // namespace moonlet
HWY_AFTER_NAMESPACE();

#endif  // toggle
