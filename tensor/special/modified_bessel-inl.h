// tensor/special/modified_bessel-inl.h: the modified Bessel functions of order 0 and 1 of vectors
// and single values, plain and with their exponential divided out. Chebyshev series: of the first
// kind in x up to 8, over 12 - x to change less, of the second in x^2 up to 2, beside the
// logarithm's part (DLMF 10.31); beyond of sqrt(x) times the function, in 1/x. Included after
// functors-inl.h, and as often.
#if defined(MOONLET_TENSOR_SPECIAL_MODIFIED_BESSEL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MOONLET_TENSOR_SPECIAL_MODIFIED_BESSEL_INL_H_
#undef MOONLET_TENSOR_SPECIAL_MODIFIED_BESSEL_INL_H_
#else
#define MOONLET_TENSOR_SPECIAL_MODIFIED_BESSEL_INL_H_
#endif

#include "tensor/special/series-inl.h"

#ifdef HWY_NAMESPACE
HWY_BEFORE_NAMESPACE();
#endif
namespace moonlet {
namespace MOONLET_FUNCTOR_NAMESPACE {
namespace special {

// exp(-|x|) I0(x), if Short with as many terms as results in float32 need.
template <bool Short = false, class V>
MOONLET_LONG_FN V i0e(V given) {
  constexpr int kNear = Short ? 20 : 0, kFar = Short ? 8 : 0;
  static constexpr double kSmall[] = {
      0.038607293616135081,    -0.014769644137828698,   0.016048172388014247,
      -0.006848117071218703,   0.0040099078511347634,   -0.0017648936440775975,
      7.992249755045809e-4,    -3.1143665120157805e-4,  1.1718341721439488e-4,
      -3.9567488411510341e-5,  1.2734416408854941e-5,   -3.7462885009907221e-6,
      1.0514046375926889e-6,   -2.7231698400297093e-7,  6.7696605624802697e-8,
      -1.5590363057870141e-8,  3.4816348407473234e-9,   -7.1807269185015954e-10,
      1.461994417832786e-10,   -2.7041403357919366e-11, 5.1247248668070769e-12,
      -8.3874235171851092e-13, 1.5443718352665795e-13,  -2.1035245739677195e-14,
      4.2441726702297416e-15,  -3.6899107242851614e-16, 1.2252947905291965e-16,
      1.4133458626282179e-18,  4.6878967249909589e-18,  6.8426844322442709e-19,
      2.5684787114641918e-19,  5.9664141015174833e-20};
  static constexpr double kLarge[] = {
      0.4022452055070544,      0.0033691164782556943,   6.889758346916825e-05,
      2.8913705208347567e-06,  2.0489185894690638e-07,  2.266668990498178e-08,
      3.3962320257083865e-09,  4.94060238822497e-10,    1.1889147107846439e-11,
      -3.1499165279632416e-11, -1.3215811840447713e-11, -1.7941785315068062e-12,
      7.180124451383666e-13,   3.8527783827421426e-13,  1.54008621752141e-14,
      -4.150569347287222e-14,  -9.554846698828307e-15,  3.8116806693526224e-15,
      1.7725601330565263e-15,  -3.425485619677219e-16,  -2.8276239805165836e-16,
      3.461222867697461e-17,   4.46562142029676e-17,    -4.830504485944182e-18,
      -7.233180487874754e-18,  9.92147541217369e-19,    1.1936508908459817e-18};
  const V x = vabs(given);
  return either(
      x <= V(8),
      [&]() MOONLET_LAMBDA { return (V(12) - x) * chebyshev<kNear>(kSmall, x * V(0.25) - V(1)); },
      [&]() MOONLET_LAMBDA { return chebyshev<kFar>(kLarge, V(16) / x - V(1)) / vsqrt(x); });
}

// exp(-|x|) I1(x), as i0e.
template <bool Short = false, class V>
MOONLET_LONG_FN V i1e(V x) {
  constexpr int kNear = Short ? 20 : 0, kFar = Short ? 8 : 0;
  static constexpr double kSmall[] = {
      0.012339146216723619,   -0.013790211744013937,   0.0083691197694140404,
      -0.0040551385232534488, 0.0018833167416196599,   -7.7481902558116987e-4,
      2.9944960336875966e-4,  -1.0559403310023555e-4,  3.4960489545924695e-5,
      -1.0706986800353554e-5, 3.0919711656094637e-6,   -8.3295407495886266e-7,
      2.1279436257480357e-7,  -5.099412881076232e-8,   1.1665135416919892e-8,
      -2.5100671991648757e-9, 5.1989143040224564e-10,  -1.0113577247402761e-10,
      1.9190355563058572e-11, -3.3823193513439571e-12, 5.9781564907573865e-13,
      -9.451120179853908e-14, 1.6126742612576888e-14,  -2.1714960484321044e-15,
      3.9820071733425321e-16, -3.6043229598586271e-17, 1.0424838139094865e-17,
      6.0984268155708776e-20, 3.7620500531880008e-19,  5.487869673896837e-20,
      2.0388870264180207e-20};
  static constexpr double kLarge[] = {
      0.38928811750914005,     -0.009761097491361469,   -0.00011058893876262371,
      -3.882564808877691e-06,  -2.512236237870209e-07,  -2.6314688468895196e-08,
      -3.835380385964237e-09,  -5.589743462196584e-10,  -1.8974958123505413e-11,
      3.2526035830154884e-11,  1.4125807436613782e-11,  2.0356285441470896e-12,
      -7.198551776245908e-13,  -4.0835511110921974e-13, -2.1015418427726643e-14,
      4.272440016711951e-14,   1.0420276984128802e-14,  -3.8144030724370075e-15,
      -1.8803547755107825e-15, 3.3082023109209285e-16,  2.96262899764595e-16,
      -3.209525921993424e-17,  -4.650305368489358e-17,  4.414348323071708e-18,
      7.517296310842104e-18,   -9.314178867326875e-19,  -1.2421932751948906e-18};
  const V size = vabs(x);
  return either(
      size <= V(8),
      [&]() MOONLET_LAMBDA {
        return x * (V(12) - size) * chebyshev<kNear>(kSmall, size * V(0.25) - V(1));
      },
      [&]() MOONLET_LAMBDA {
        return vcopysign(chebyshev<kFar>(kLarge, V(16) / size - V(1)) / vsqrt(size), x);
      });
}

// The exponential in halves: it may overflow where the product does not. An infinite x alone leaves
// 0 times infinity.
template <bool Short = false, class V>
MOONLET_FN V i0(V x) {
  const V size = vabs(x), half = vexp(V(0.5) * size);
  return select(size == V(kInf), size, half * i0e<Short>(x) * half);
}
template <bool Short = false, class V>
MOONLET_FN V i1(V x) {
  const V size = vabs(x), half = vexp(V(0.5) * size);
  return select(size == V(kInf), x, half * i1e<Short>(x) * half);
}

// log(x / 2), also where x / 2 is 0.
template <class V>
MOONLET_FN V log_half(V x) {
  return vlog(x) - V(0.69314718055994530942);
}

// K0(x), or exp(x) K0(x) if `scaled`.
template <class V>
MOONLET_LONG_FN V k0(V x, bool scaled) {
  static constexpr double kSmall[] = {
      -0.2676636966169514,    0.3442898999246285,     0.0359799365153615,    0.001264615411446926,
      2.286212103119452e-05,  2.5347910790261494e-07, 1.904516377220209e-09, 1.0349695257633625e-11,
      4.2598161427910826e-14, 1.3744654358807508e-16, 3.5708965285083736e-19};
  static constexpr double kLarge[] = {
      1.2201515410329777,      -0.0314481013119645,    0.0015698838857300533,
      -0.00012849549581627802, 1.39498137188765e-05,   -1.8317555227191195e-06,
      2.766813639445015e-07,   -4.660489897687948e-08, 8.574034017414225e-09,
      -1.6975345093890614e-09, 3.5773972814003283e-10, -7.957489244477396e-11,
      1.8559491149549264e-11,  -4.514597883374519e-12, 1.1403405882073441e-12,
      -2.9800969231481784e-13, 8.032890775068375e-14,  -2.2275133267462965e-14,
      6.340076476276646e-15,   -1.848593377920907e-15, 5.5120559994043335e-16,
      -1.6782311257549006e-16, 5.2103917776435543e-17, -1.6475805939842632e-17,
      5.3004337711773354e-18,  -1.7331712005821001e-18};
  const V y = either(
      x > V(2),
      [&]() MOONLET_LAMBDA {
        const V value = chebyshev(kLarge, V(4) / x - V(1)) / vsqrt(x);
        const V half = scaled ? V(1) : vexp(V(-0.5) * x);
        return half * value * half;
      },
      [&]() MOONLET_LAMBDA {
        const V value = chebyshev(kSmall, V(0.5) * x * x - V(1)) - log_half(x) * i0(x);
        return scaled ? vexp(x) * value : value;
      });
  return select(x > V(0), y, select(x == V(0), V(kInf), V(kNaN)));
}

// K1(x), or exp(x) K1(x) if `scaled`.
template <class V>
MOONLET_LONG_FN V k1(V x, bool scaled) {
  static constexpr double kSmall[] = {
      0.7626501136694739,     -0.3531559607765449,     -0.12261118082265715,
      -0.006975723859639864,  -0.0001730288957513052,  -2.4334061415659684e-06,
      -2.213387630734726e-08, -1.4114883926335278e-10, -6.666901694199329e-13,
      -2.427449850519366e-15, -7.023863479386288e-18};
  static constexpr double kLarge[] = {
      1.3603130952422213,      0.10392373657681724,     -0.002857816859622779,
      0.00019521551847135162,  -1.936197974166083e-05,  2.406484947837217e-06,
      -3.5019606030878126e-07, 5.7410841254500495e-08,  -1.0345762465678097e-08,
      2.0150497551970347e-09,  -4.1903547593419254e-10, 9.218315187605315e-11,
      -2.129967838427791e-11,  5.139639673482343e-12,   -1.2891739609498229e-12,
      3.348419666052243e-13,   -8.976705182010146e-14,  2.4771544242195988e-14,
      -7.0198370892147685e-15, 2.038703166239861e-15,   -6.057047270643018e-16,
      1.8380935752430455e-16,  -5.689462849193648e-17,  1.7940510478863572e-17,
      -5.7567444820733025e-18, 1.8778651901623268e-18};
  const V y = either(
      x > V(2),
      [&]() MOONLET_LAMBDA {
        const V value = chebyshev(kLarge, V(4) / x - V(1)) / vsqrt(x);
        const V half = scaled ? V(1) : vexp(V(-0.5) * x);
        return half * value * half;
      },
      [&]() MOONLET_LAMBDA {
        const V value = chebyshev(kSmall, V(0.5) * x * x - V(1)) / x + log_half(x) * i1(x);
        return scaled ? vexp(x) * value : value;
      });
  return select(x > V(0), y, select(x == V(0), V(kInf), V(kNaN)));
}

}  // namespace special
}  // namespace MOONLET_FUNCTOR_NAMESPACE
}  // namespace moonlet
#ifdef HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#endif  // toggle
