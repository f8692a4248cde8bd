// tensor/special/bessel-inl.h: the Bessel functions of order 0 and 1 of vectors and single values.
// Up to 8 Chebyshev series in x^2, of the first kind with its zeros divided out, of the second
// beside the logarithm's part (DLMF 10.8). Beyond, the amplitudes P and Q of Hankel's form
// (DLMF 10.17.3), series in (8 / x)^2. Included after functors-inl.h, and as often.
#if defined(MOONLET_TENSOR_SPECIAL_BESSEL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MOONLET_TENSOR_SPECIAL_BESSEL_INL_H_
#undef MOONLET_TENSOR_SPECIAL_BESSEL_INL_H_
#else
#define MOONLET_TENSOR_SPECIAL_BESSEL_INL_H_
#endif

#include "tensor/special/series-inl.h"

#ifdef HWY_NAMESPACE
HWY_BEFORE_NAMESPACE();
#endif
namespace moonlet {
namespace MOONLET_FUNCTOR_NAMESPACE {
namespace special {

// sqrt(2 / (pi x)) (P cos(x - phase) - Q sin(x - phase)) for the first kind, for the second with
// the sine and the cosine of P and Q exchanged. The phase, a multiple of pi / 4, comes as its sine
// and cosine, so that x loses nothing.
template <class V>
MOONLET_FN V hankel_form(V x, V p, V q, double phase_cos, double phase_sin, bool second) {
  const V sine = vsin(x), cosine = vcos(x);
  const V c = cosine * V(phase_cos) + sine * V(phase_sin);
  const V s = sine * V(phase_cos) - cosine * V(phase_sin);
  const V y = vsqrt(V(2) / (V(kPi) * x)) * (second ? p * s + q * c : p * c - q * s);
  return select(x == V(kInf), V(0), y);
}

template <class V>
MOONLET_LONG_FN V bessel_large_0(V x, bool second) {
  static constexpr double kP[] = {
      0.9994603493475187,      -0.0005365220468132117,  3.0751847875194745e-06,
      -5.1705945376060975e-08, 1.6306464635151382e-09,  -7.86409137723707e-11,
      5.168262387349193e-12,   -4.3045788699253914e-13, 4.3265957431549404e-14,
      -5.069034095935236e-15,  6.748072215733873e-16,   -1.0011513723467786e-16,
      1.6305919233744186e-17,  -2.880866169482871e-18};
  static constexpr double kQ[] = {
      -0.12444683684269607,    0.0005470815954089319,  -5.9315987288485175e-06,
      1.4377965798375193e-07,  -5.817532749493056e-09, 3.376097523734991e-10,
      -2.565397936797308e-11,  2.404916100281365e-12,  -2.6690625482579414e-13,
      3.4041800321963686e-14,  -4.87994410531204e-15,  7.729703176242605e-16,
      -1.3348852171502517e-16, 2.4865952389390515e-17, -4.952892629886514e-18,
      1.047315897377605e-18,   -2.3369301722113103e-19};
  constexpr double kHalfRoot = 0.70710678118654752440;
  const V r = V(8) / x, t = V(2) * r * r - V(1);
  return hankel_form(x, chebyshev(kP, t), chebyshev(kQ, t) / x, kHalfRoot, kHalfRoot, second);
}

template <class V>
MOONLET_LONG_FN V bessel_large_1(V x, bool second) {
  static constexpr double kP[] = {
      1.0009030408600137,      0.0008989898330859408,   -3.987284300488908e-06,
      6.177633960644299e-08,   -1.8718907491063067e-09, 8.816898659582339e-11,
      -5.704863640395645e-12,  4.699195515230542e-13,   -4.6842237839904895e-14,
      5.452674896044717e-15,   -7.221180842274018e-16,  1.0667689114335412e-16,
      -1.7312313216116335e-17, 3.0492991197665872e-18};
  static constexpr double kQ[] = {
      0.3742222965562826,     -0.0007702178839325664, 7.3108922063643636e-06,
      -1.676782510726674e-07, 6.583354662120443e-09,  -3.749090950541556e-10,
      2.8121750359748866e-11, -2.61145253946232e-12,  2.8774212663332235e-13,
      -3.649001916061838e-14, 5.206626366226707e-15,  -8.215318025458595e-16,
      1.4141084390211833e-16, -2.626761589838529e-17, 5.219264919671406e-18,
      -1.1012617187879541e-18};
  constexpr double kHalfRoot = 0.70710678118654752440;
  const V r = V(8) / x, t = V(2) * r * r - V(1);
  return hankel_form(x, chebyshev(kP, t), chebyshev(kQ, t) / x, -kHalfRoot, kHalfRoot, second);
}

// x^2 - zero^2, exact near the zero, which is given as the sum of two doubles.
template <class V>
MOONLET_FN V from_zero(V x, double zero, double rest) {
  return ((x - V(zero)) - V(rest)) * (x + V(zero));
}

template <class V>
MOONLET_LONG_FN V bessel_j0(V given) {
  static constexpr double kSeries[] = {
      0.0019903555001601486,   -0.002620939138497025,   0.0008687721472062577,
      -0.00017040584951557357, 2.204908639454817e-05,   -2.0248894980012834e-06,
      1.3898025173428905e-07,  -7.406701254344167e-09,  3.1559927583611334e-10,
      -1.1003860827939697e-11, 3.1989232970233477e-13,  -7.875041254709154e-15,
      1.6632588015211278e-16,  -3.0475993756698376e-18, 4.8912290055811176e-20};
  const V x = vabs(given);
  const V y = either(
      x > V(8), [&]() MOONLET_LAMBDA { return bessel_large_0(x, false); },
      [&]() MOONLET_LAMBDA {
        return from_zero(x, 2.404825557695773, -1.176691651530894e-16) *
               from_zero(x, 5.520078110286311, 8.088597146146722e-17) *
               chebyshev(kSeries, x * x * V(1.0 / 32) - V(1));
      });
  return select(x < V(1e-5), V(1) - V(0.25) * x * x, y);
}

template <class V>
MOONLET_LONG_FN V bessel_j1(V x) {
  static constexpr double kSeries[] = {
      0.00027895709887613106,  -0.0003115684036643562, 8.553646588540538e-05,
      -1.4149356425623485e-05, 1.576470099225889e-06,  -1.269075502369425e-07,
      7.747614077073057e-09,   -3.716577146675772e-10, 1.4395417669312554e-11,
      -4.60007822413452e-13,   1.2341465589619718e-14, -2.8205466239524856e-16,
      5.558821065951572e-18,   -9.546930865755219e-20, 1.4418291781315051e-21};
  const V size = vabs(x);
  return either(
      size > V(8),
      [&]() MOONLET_LAMBDA { return vcopysign(V(1), x) * bessel_large_1(size, false); },
      [&]() MOONLET_LAMBDA {
        return x * from_zero(size, 3.8317059702075125, -1.5269184090088067e-16) *
               from_zero(size, 7.015586669815619, -9.414165653410389e-17) *
               chebyshev(kSeries, x * x * V(1.0 / 32) - V(1));
      });
}

// The functions of the second kind have no values below 0.
template <class V>
MOONLET_FN V positive_only(V x, V y, double at_zero) {
  return select(x > V(0), y, select(x == V(0), V(at_zero), V(kNaN)));
}

template <class V>
MOONLET_LONG_FN V bessel_y0(V x) {
  static constexpr double kSeries[] = {
      -0.03314611320328494,    -0.2744743055297453,     0.17903431407718265,
      0.26156734625504663,     -0.17730201278114358,    0.04719668959576339,
      -0.007287962479552079,   0.0007531135932577742,   -5.632079141056987e-05,
      3.206532537654801e-06,   -1.44072332740187e-07,   5.248794787330516e-09,
      -1.5837552541812015e-10, 4.02633081830612e-12,    -8.747341203310769e-14,
      1.6434898714919468e-15,  -2.6977881152566837e-17, 3.9032584173475982e-19};
  const V y = either(
      x > V(8), [&]() MOONLET_LAMBDA { return bessel_large_0(x, true); },
      [&]() MOONLET_LAMBDA {
        return chebyshev(kSeries, x * x * V(1.0 / 32) - V(1)) + V(2 / kPi) * vlog(x) * bessel_j0(x);
      });
  return positive_only(x, y, -kInf);
}

template <class V>
MOONLET_LONG_FN V bessel_y1(V x) {
  static constexpr double kSeries[] = {
      0.0025380132357417816,   -0.01608717304766875,  -0.09591204536083074,
      0.08445197259652346,     -0.028328123944594365, 0.005289897544167113,
      -0.0006414551451326356,  5.505982873338744e-05, -3.53808001868935e-06,
      1.7707804556154404e-07,  -7.11055004989928e-09, 2.344337905911516e-10,
      -6.4651518414115946e-12, 1.51429151205002e-13,  -3.0511859694473254e-15,
      5.34668038572867e-17,    -8.224911372021585e-19};
  const V y = either(
      x > V(8), [&]() MOONLET_LAMBDA { return bessel_large_1(x, true); },
      [&]() MOONLET_LAMBDA {
        return x * chebyshev(kSeries, x * x * V(1.0 / 32) - V(1)) +
               V(2 / kPi) * (vlog(x) * bessel_j1(x) - V(1) / x);
      });
  return positive_only(x, y, -kInf);
}

template <class V>
MOONLET_FN V spherical_bessel_j0(V x) {
  const V y = select(vabs(x) == V(kInf), V(0), vsin(x) / x);
  return select(x == V(0), V(1), y);
}

}  // namespace special
}  // namespace MOONLET_FUNCTOR_NAMESPACE
}  // namespace moonlet
#ifdef HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#endif  // toggle
