// tensor/special/incomplete_gamma.h: the regularised incomplete gamma functions P(a, x) and
// Q(a, x) = 1 - P(a, x).
#pragma once

#include "tensor/functors/functor_math.h"
#include "tensor/special/series.h"

namespace moonlet::special {

// log(x / a) - (x - a) / a, exact for x near a: with u = (x - a) / a and s = u / (2 + u) it is
// 2 atanh(s) - u.
MOONLET_HD double log_ratio_less(double x, double a) {
  const double u = (x - a) / a;
  if (fabs(u) > 0.6) return log(x / a) - u;
  const double s = u / (2 + u), square = s * s;
  double sum = 0, power = s * square;
  for (int k = 3; fabs(power) > 1e-18 * fabs(sum); k += 2, power *= square) sum += power / k;
  return 2 * sum - u * s;
}

// gamma(1 + a), as its logarithm over a: a Chebyshev series up to 0.5.
MOONLET_HD double lgamma1p(double a) {
  static constexpr double kSeries[] = {
      -0.40119623277820043,    0.16727067710339055,     -0.008151062156675055,
      0.0005513921569413862,   -4.247273995933618e-05,  3.4989272362412623e-06,
      -3.0002291903784227e-07, 2.6410795542216655e-08,  -2.368301265823742e-09,
      2.1530778450424467e-10,  -1.9783893359025602e-11, 1.8334866742241024e-12,
      -1.7112096117811634e-13, 1.606579097278347e-14,   -1.5160095697542263e-15,
      1.4368436843071982e-16,  -1.3670644981021515e-17, 1.305110206498515e-18};
  return a <= 0.5 ? a * chebyshev(kSeries, 4 * a - 1) : fn::vlgamma(1 + a);
}

// The logarithm of gamma(a) over Stirling's sqrt(2 pi / a) (a / e)^a, for a >= 10 (DLMF 5.11.1).
MOONLET_HD double stirling_rest(double a) {
  const double r = 1 / (a * a);
  return (1.0 / 12 -
          r * (1.0 / 360 - r * (1.0 / 1260 -
                                r * (1.0 / 1680 -
                                     r * (1.0 / 1188 - r * (691.0 / 360360 - r * (1.0 / 156))))))) /
         a;
}

// x^a e^-x / gamma(a)
MOONLET_HD double gamma_density(double a, double x) {
  if (a >= 10) {
    const double size = a * log_ratio_less(x, a) - stirling_rest(a);
    return sqrt(a / (2 * kPi)) * exp(size);
  }
  if (x > 900) return 0;
  const double half = exp(-0.5 * x);
  return pow(x, a) * half / tgamma(a) * half;
}

// P by its power series (DLMF 8.7.1), for x not much above a.
MOONLET_HD double gamma_p_series(double a, double x) {
  double term = 1 / a, sum = term;
  for (int n = 1; n < 2000 && term > 1e-17 * sum; ++n) {
    term *= x / (a + n);
    sum += term;
  }
  return sum * gamma_density(a, x);
}

// Q for small x: 1 - x^a / gamma(1 + a) and the other terms of the series of P.
MOONLET_HD double gamma_q_series(double a, double x) {
  double power = 1, sum = 0;
  for (int n = 1; n < 200; ++n) {
    power *= -x / n;
    const double term = power / (a + n);
    sum += term;
    if (fabs(term) <= 1e-17 * fabs(sum)) break;
  }
  const double size = a * log(x) - lgamma1p(a);
  return -expm1(size) - a * exp(size) * sum;
}

// Q by its continued fraction (DLMF 8.9.2), for x above a: numerators and denominators of its
// convergents, which are divided now and then to see whether the quotient still changes.
MOONLET_HD double gamma_q_fraction(double a, double x) {
  const double density = gamma_density(a, x);
  if (density == 0) return 0;
  double b = x + 1 - a, before = 0, top = 1, below_before = 1, below = b, value = 1 / b;
  for (int n = 1; n < 2000;) {
    for (const int end = n + 4; n < end; ++n) {
      const double factor = -n * (n - a);
      b += 2;
      const double next = b * top + factor * before, under = b * below + factor * below_before;
      before = top, top = next, below_before = below, below = under;
    }
    const double last = value;
    value = top / below;
    if (fabs(value - last) <= 5e-16 * value) break;
    if (below > 1e100) before *= 1e-100, top *= 1e-100, below_before *= 1e-100, below *= 1e-100;
  }
  return value * density;
}

// P (or Q, as `upper` says) for large a and x near a: the uniform expansion of Temme 1979 (DLMF
// 8.12.3), whose coefficients are sums of powers of eta with eta^2 / 2 = u - log(1 + u).
MOONLET_HD double gamma_uniform(double a, double x, bool upper) {
  // Of each order of 1 / a, the powers of eta from 0.
  static constexpr int kOrders = 8, kCounts[] = {23, 21, 19, 16, 14, 11, 7, 4};
  static constexpr double kTerms[] = {
      -0.3333333333333333,     0.08333333333333333,     -0.014814814814814815,
      0.0011574074074074073,   0.0003527336860670194,   -0.0001787551440329218,
      3.919263178522438e-05,   -2.185448510679992e-06,  -1.85406221071516e-06,
      8.296711340953087e-07,   -1.7665952736826078e-07, 6.707853543401498e-09,
      1.0261809784240309e-08,  -4.382036018453353e-09,  9.14769958223679e-10,
      -2.5514193994946248e-11, -5.830772132550426e-11,  2.4361948020667415e-11,
      -5.0276692801141755e-12, 1.1004392031956135e-13,  3.371763262400985e-13,
      -1.392388722418162e-13,  2.8534893807047445e-14,  -0.001851851851851852,
      -0.003472222222222222,   0.0026455026455026454,   -0.0009902263374485596,
      0.00020576131687242798,  -4.018775720164609e-07,  -1.8098550334489977e-05,
      7.64916091608111e-06,    -1.6120900894563446e-06, 4.647127802807434e-09,
      1.378633446915721e-07,   -5.752545603517705e-08,  1.1951628599778148e-08,
      -1.7543241719747647e-11, -1.0091543710600413e-09, 4.162792991842583e-10,
      -8.56390702649298e-11,   6.067215101604758e-14,   7.1624989648114856e-12,
      -2.933186643771437e-12,  5.996696365683689e-13,   0.004133597883597883,
      -0.0026813271604938273,  0.0007716049382716049,   2.0093878600823047e-06,
      -0.0001073665322636516,  5.2923448829120125e-05,  -1.2760635188618728e-05,
      3.423578734096138e-08,   1.3721957309062934e-06,  -6.298992138380055e-07,
      1.4280614206064242e-07,  -2.0477098421990866e-10, -1.409252991086752e-08,
      6.228974084922022e-09,   -1.3670488396617114e-09, 9.428356159014678e-13,
      1.2872252400089318e-10,  -5.5645956134363323e-11, 1.197593554636698e-11,
      0.0006494341563786008,   0.00022947209362139917,  -0.0004691894943952557,
      0.00026772063206283885,  -7.561801671883977e-05,  -2.396505113867297e-07,
      1.1082654115347302e-05,  -5.6749528269915965e-06, 1.4230900732435883e-06,
      -2.7861080291528143e-11, -1.6958404091930278e-07, 8.099464905388083e-08,
      -1.9111168485973655e-08, 2.3928620439808118e-12,  2.0620131815488797e-09,
      -9.460496661855133e-10,  -0.0008618882909167117,  0.0007840392217200666,
      -0.0002990724803031902,  -1.4638452578843418e-06, 6.641498215465122e-05,
      -3.968365047179435e-05,  1.1375726970678419e-05,  2.507497226237533e-10,
      -1.6954149536558305e-06, 8.907507532205309e-07,   -2.292934834000805e-07,
      2.956794137544049e-11,   2.8865829742708783e-08,  -1.4189739437803219e-08,
      -0.00033679855336635813, -6.972813758365857e-05,  0.0002772753244959392,
      -0.00019932570516188847, 6.797780477937208e-05,   1.419062920643967e-07,
      -1.3594048189768693e-05, 8.018470256334202e-06,   -2.291481176508095e-06,
      -3.252473551298454e-10,  3.4652846491085265e-07,  0.0005313079364639922,
      -0.0005921664373536939,  0.0002708782096718045,   7.902353232660328e-07,
      -8.153969367561969e-05,  5.61168275310625e-05,    -1.8329116582843375e-05,
      0.00034436760689237765,  5.171790908260592e-05,   -0.00033493161081142234,
      0.0002812695154763237};
  const double half_square = -log_ratio_less(x, a);
  const double eta = copysign(sqrt(2 * half_square), x - a);
  double sum = 0;
  int end = static_cast<int>(sizeof kTerms / sizeof *kTerms);
  for (int k = kOrders - 1; k >= 0; --k) {
    double row = 0;
    for (int n = 0; n < kCounts[k]; ++n) row = row * eta + kTerms[--end];
    sum = sum / a + row;
  }
  const double rest = exp(-a * half_square) / sqrt(2 * kPi * a) * sum;
  const double root = eta * sqrt(0.5 * a);
  return upper ? 0.5 * erfc(root) + rest : 0.5 * erfc(-root) - rest;
}

MOONLET_HD bool is_uniform(double a, double x) { return a >= 100 && fabs(x - a) < 0.5 * a; }

// P(a, x), called igamma.
MOONLET_HD double igamma(double a, double x) {
  if (!(a >= 0 && x >= 0) || (a == 0 && x == 0) || (a == kInf && x == kInf)) return kNaN;
  if (x == 0 || a == kInf) return 0;
  if (a == 0 || x == kInf) return 1;
  if (is_uniform(a, x)) return gamma_uniform(a, x, false);
  if (x <= a) return gamma_p_series(a, x);
  return x <= 1.1 ? 1 - gamma_q_series(a, x) : 1 - gamma_q_fraction(a, x);
}

// Q(a, x), called igammac.
MOONLET_HD double igammac(double a, double x) {
  if (!(a >= 0 && x >= 0) || (a == 0 && x == 0) || (a == kInf && x == kInf)) return kNaN;
  if (x == 0 || a == kInf) return 1;
  if (a == 0 || x == kInf) return 0;
  if (is_uniform(a, x)) return gamma_uniform(a, x, true);
  if (x > 1.1) return x < a ? 1 - gamma_p_series(a, x) : gamma_q_fraction(a, x);
  // Which of P and Q is small: the other is the difference from 1.
  const double bound = x <= 0.5 ? -0.4 / log(x) : 1.1 * x;
  return bound < a ? 1 - gamma_p_series(a, x) : gamma_q_series(a, x);
}

// log(x) - digamma(a), for a > 0: the recurrence of digamma up to 10, then its asymptotic series
// (DLMF 5.11.2).
MOONLET_HD double log_less_digamma(double x, double a) {
  double rest = 0;
  for (; a < 10; a += 1) rest += 1 / a;
  const double r = 1 / (a * a);
  const double series =
      r *
      (1.0 / 12 -
       r * (1.0 / 120 - r * (1.0 / 252 - r * (1.0 / 240 - r * (1.0 / 132 - r * (691.0 / 32760))))));
  return log(x / a) + 0.5 / a + series + rest;
}

// How far P(a, x) falls with a, over the density of x: the sum of its power series, of which each
// term is differentiated.
MOONLET_HD double gamma_gradient_series(double a, double x) {
  double term = 1, sum = 1, gradient = 0, harmonic = 0;
  for (int k = 1; k < 20000; ++k) {
    term *= x / (a + k);
    harmonic += 1 / (a + k);
    sum += term;
    gradient += term * harmonic;
    if (k > x - a && term * harmonic <= 1e-17 * gradient) break;
  }
  return x / a * (gradient - sum * log_less_digamma(x, a + 1));
}

// How far Q(a, x) rises with a, over that density: the convergents of its continued fraction and
// their derivatives, all scaled to a denominator of 1.
MOONLET_HD double gamma_gradient_fraction(double a, double x) {
  double b = x + 1 - a, before = 0, top = 1 / b, under_before = 1 / b, gradient = 0, last = 0;
  double before_gradient = 0, top_gradient = 0, under_before_gradient = 0, under_gradient = -1 / b;
  for (int n = 1; n < 5000; ++n) {
    const double factor = -n * (n - a);
    b += 2;
    const double next = b * top + factor * before, under = b + factor * under_before;
    const double next_gradient = b * top_gradient - top + n * before + factor * before_gradient;
    const double next_under_gradient =
        b * under_gradient - 1 + n * under_before + factor * under_before_gradient;
    const double scale = 1 / under;
    before = top * scale, under_before = scale, top = next * scale;
    before_gradient = top_gradient * scale, under_before_gradient = under_gradient * scale;
    top_gradient = next_gradient * scale, under_gradient = next_under_gradient * scale;
    const double now = top_gradient - top * under_gradient;
    if (n > 2 && fabs(top - last) <= 1e-16 * top && fabs(now - gradient) <= 1e-15 * fabs(now))
      break;
    last = top, gradient = now;
  }
  return x * (top * log_less_digamma(x, a) + top_gradient - top * under_gradient);
}

// The same for large a, by the expansion of the quantile in the normal one (Cornish and Fisher
// 1938): that is found by Newton's method.
MOONLET_HD double gamma_gradient_normal(double a, double x) {
  const double root = sqrt(a), wanted = (x - a) / root;
  double z = wanted - (wanted * wanted - 1) / (3 * root), order = 0;
  for (int n = 0; n < 4; ++n) {
    order = (3 * z * z + 7) * z * z - 16;
    const double value = z + (z * z - 1) / (3 * root) + (z * z - 7) * z / (36 * a) -
                         order / (810 * a * root) - wanted;
    z -= value / (1 + 2 * z / (3 * root) + (3 * z * z - 7) / (36 * a));
  }
  return 1 + z / (2 * root) - (z * z - 7) * z / (72 * a * root) + order / (810 * a * a);
}

// The derivative by a of the x for which P(a, x) stays the same: how a number of the gamma
// distribution moves with its shape.
MOONLET_HD double gamma_quantile_gradient(double a, double x) {
  if (!(a > 0 && x >= 0 && a < kInf && x < kInf)) return kNaN;
  if (x == 0) return 0;
  if (a > 1e4) return gamma_gradient_normal(a, x);
  return x <= a + 2 + 4 * sqrt(a) ? gamma_gradient_series(a, x) : gamma_gradient_fraction(a, x);
}

}  // namespace moonlet::special
