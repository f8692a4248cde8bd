// tensor/special/airy-inl.h: the Airy function Ai of vectors and single values. Chebyshev series of
// Ai itself from -6 to 2, beyond of the factors of its asymptotic forms (DLMF 9.7.5, 9.7.9), in
// powers of 1 / zeta with zeta = 2/3 |x|^(3/2). Included after functors-inl.h, and as often.
#if defined(MOONLET_TENSOR_SPECIAL_AIRY_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MOONLET_TENSOR_SPECIAL_AIRY_INL_H_
#undef MOONLET_TENSOR_SPECIAL_AIRY_INL_H_
#else
#define MOONLET_TENSOR_SPECIAL_AIRY_INL_H_
#endif

#include "tensor/special/series-inl.h"

#ifdef HWY_NAMESPACE
HWY_BEFORE_NAMESPACE();
#endif
namespace moonlet {
namespace MOONLET_FUNCTOR_NAMESPACE {
namespace special {

// zeta, as the sum of two doubles: a large one would lose in its last bits what exp and sine show.
template <class V>
MOONLET_FN V airy_zeta(V x, V& rest) {
  const V root = vsqrt(x), two(2), three(3);
  const V root_rest = vfma(-root, root, x) / (two * root);
  const V product = x * root;
  const V product_rest = vfma(x, root, -product) + x * root_rest;
  const V zeta = two * product / three;
  rest = vfma(-three, zeta, two * product) / three + two * product_rest / three;
  return zeta;
}

template <class V>
MOONLET_LONG_FN V airy_above_2(V x) {
  static constexpr double kSeries[] = {
      0.9844053049171552,      -0.014792784850104199,   0.0007327177465426715,
      -6.12595423417825e-05,   6.83476697557269e-06,    -9.237229735403982e-07,
      1.436225340438052e-07,   -2.489319422322096e-08,  4.709793440054328e-09,
      -9.583863708112733e-10,  2.0745855483677591e-10,  -4.737267332192277e-11,
      1.1336099808224236e-11,  -2.827706782319351e-12,  7.320712095125598e-13,
      -1.9599793911089723e-13, 5.4101162570683925e-14,  -1.5356466802223836e-14,
      4.472340393300025e-15,   -1.3338094674756683e-15, 4.066582046456231e-16,
      -1.265583225645289e-16,  4.015126334015871e-17,   -1.2969972135960937e-17,
      4.2613499074124e-18,     -1.422676842293507e-18};
  V rest;
  const V zeta = airy_zeta(x, rest), half = vexp(V(-0.5) * zeta), one(1);
  const V factor = chebyshev(kSeries, V(2) / (V(0.5303300858899106433) * zeta) - one);
  const V y = half * (one - rest) * factor / (V(2) * vsqrt(V(kPi) * vsqrt(x))) * half;
  return select(x > V(110), V(0), y);
}

template <class V>
MOONLET_LONG_FN V airy_below_minus_6(V x) {
  static constexpr double kP[] = {
      0.9998088477395531,      -0.00019041677962134863, 7.267968168417445e-07,
      -8.485426967529796e-09,  1.9144545982950886e-10,  -6.778493941405162e-12,
      3.345666079656652e-13,   -2.1345137724465704e-14, 1.6718079441151791e-15,
      -1.5491724858625586e-16, 1.6524273492513008e-17,  -1.986767869585125e-18};
  static constexpr double kQ[] = {
      0.06925101122700861,     -0.00019199395713168297, 1.4144485007348916e-06,
      -2.4076418454371364e-08, 7.033135474188027e-10,   -3.0199171290130837e-11,
      1.73483636560491e-12,    -1.2527799137757002e-13, 1.0886384509119664e-14,
      -1.1026771285105438e-15, 1.2709996936013433e-16,  -1.6365087007659018e-17,
      2.3195560389025733e-18,  -3.5767506409927694e-19};
  V rest;
  const V zeta = airy_zeta(-x, rest);
  const V t = V(192) / (zeta * zeta) - V(1);
  const V p = chebyshev(kP, t), q = chebyshev(kQ, t) / zeta;
  const V sine = vsin(zeta), cosine = vcos(zeta), rest_sin = vsin(rest), rest_cos = vcos(rest);
  const V s = sine * rest_cos + cosine * rest_sin, c = cosine * rest_cos - sine * rest_sin;
  // sin(zeta + pi / 4) p - cos(zeta + pi / 4) q
  const V y = V(0.70710678118654752440) * ((s + c) * p - (c - s) * q) / vsqrt(V(kPi) * vsqrt(-x));
  // Where zeta would leave the doubles; the function is smaller than the 50th digit there.
  return select(x < V(-1e200), V(0), y);
}

template <class V>
MOONLET_LONG_FN V airy_ai(V x) {
  static constexpr double kTo2[] = {
      0.1661487551134717,      -0.160200643749162,      0.02985086265042287,
      -3.592821006346677e-05,  -0.0010148771856557245,  0.00018650430146538642,
      -9.023207531845663e-06,  -1.8719071101908585e-06, 3.7633084265224525e-07,
      -2.2543102304853237e-08, -1.521783492607275e-09,  3.7631432654361224e-10,
      -2.4444948546165672e-11, -5.979424144805241e-13,  2.2466976613000314e-13,
      -1.5345032770179278e-14, -7.025980667351147e-17,  8.902219306136638e-17,
      -6.348506763486825e-18};
  static constexpr double kTo0[] = {
      0.19060936088817138,     0.4007348299492617,     -0.2366273994830915,
      -0.02973658675109898,    0.03558791189838825,    -0.004539529147334286,
      -0.0014499270390662456,  0.0004767370872129423,  -1.5481365989362334e-05,
      -1.432729193303285e-05,  2.477319908122908e-06,  4.341347493740712e-08,
      -6.250430419811365e-08,  6.676331106031078e-09,  3.805994995412559e-10,
      -1.542479417896067e-10,  1.0706698491072081e-11, 1.060599865435648e-12,
      -2.4478695478513757e-13, 1.0912066284825383e-14, 1.7175902022008548e-15,
      -2.704175933433887e-16,  7.076343942052415e-18,  1.88374363096346e-18};
  static constexpr double kToMinus3[] = {
      -0.12260464971946636,    -0.14266660392061542,    -0.3168280735924016,
      0.14876257308766014,     0.09168533274526762,     -0.03415996897704536,
      -0.006255440106985638,   0.003392186908678041,    6.747391300452915e-06,
      -0.00016670777443554468, 1.7233892222726794e-05,  3.978684161276152e-06,
      -9.064476724738631e-07,  -1.6382090705844764e-08, 2.245250772865919e-08,
      -1.7014559549297524e-09, -2.683802470250002e-10,  5.194748169250968e-11,
      -1.922348654041687e-13,  -7.256351923611923e-13,  6.044980069287393e-14,
      4.173829866649862e-15,   -1.007923764856349e-15,  3.0581133828451547e-17,
      7.860251101769519e-18,   -8.497295892921959e-19};
  const V third = x * V(1.0 / 1.5);
  V y = either(
      x > V(2), [&]() MOONLET_LAMBDA { return airy_above_2(x); },
      [&]() MOONLET_LAMBDA { return chebyshev(kTo2, x - V(1)); });
  if (!any(x < V(0))) return y;
  y = select(x < V(0), chebyshev(kTo0, third + V(1)), y);
  if (any(x < V(-3))) y = select(x < V(-3), chebyshev(kToMinus3, third + V(3)), y);
  return any(x < V(-6)) ? select(x < V(-6), airy_below_minus_6(x), y) : y;
}

}  // namespace special
}  // namespace MOONLET_FUNCTOR_NAMESPACE
}  // namespace moonlet
#ifdef HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#endif  // toggle
