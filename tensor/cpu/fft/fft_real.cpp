// tensor/cpu/fft/fft_real.cpp: the passes between real and complex numbers, one version per
// instruction set: the halves of an even number of points, and of an odd number the first or last
// pass.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/cpu/fft/fft_real.cpp"
//
#include "tensor/cpu/pointwise/pointwise_targets.h"
//
#include "hwy/foreach_target.h"
//
#include "tensor/cpu/fft/fft_number-inl.h"

HWY_BEFORE_NAMESPACE();
namespace moonlet::cpu::fft {
namespace HWY_NAMESPACE {

template <class D>
HWY_INLINE Number<D> reversed(D d, Number<D> x) {
  if constexpr (hn::MaxLanes(D()) == 1) return x;
  return {hn::Reverse(d, x.re), hn::Reverse(d, x.im)};
}

// X[k] and X[h - k] from Z[k] and Z[h - k], see split_halves.
template <class D>
HWY_INLINE void split_pair(D d, Number<D> turn, Number<D> z, Number<D> mirror, Number<D>* low,
                           Number<D>* high) {
  const auto half = hn::Set(d, hn::TFromD<D>(0.5));
  const Number<D> even = {hn::Mul(half, hn::Add(z.re, mirror.re)),
                          hn::Mul(half, hn::Sub(z.im, mirror.im))};
  const Number<D> odd = {hn::Mul(half, hn::Add(z.im, mirror.im)),
                         hn::Mul(half, hn::Sub(mirror.re, z.re))};
  const Number<D> turned = odd * turn;
  *low = even + turned;
  *high = {hn::Sub(even.re, turned.re), hn::Sub(turned.im, even.im)};
}
// Z[k] and Z[h - k] from X[k] and X[h - k].
template <class D>
HWY_INLINE void join_pair(D, Number<D> turn, Number<D> x, Number<D> mirror, Number<D>* low,
                          Number<D>* high) {
  const Number<D> even = {hn::Add(x.re, mirror.re), hn::Sub(x.im, mirror.im)};
  const Number<D> gap = {hn::Sub(x.re, mirror.re), hn::Add(x.im, mirror.im)};
  const Number<D> odd = gap * Number<D>{turn.re, hn::Neg(turn.im)};
  *low = {hn::Sub(even.re, odd.im), hn::Add(even.im, odd.re)};
  *high = {hn::Add(even.re, odd.im), hn::Sub(odd.re, even.im)};
}

// Calls pair(d, k, at, mirror) for all k in [1, h / 2] of one transform: lanes are neighbouring k,
// whose numbers begin at `at` and, the other way round, at `mirror`.
template <class T, class Pair>
HWY_INLINE void each_pair_of_row(int64_t h, Pair&& pair) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t k = 1;
  for (; k + lanes <= h / 2 + 1; k += lanes) pair(d, k, k, h - k - lanes + 1);
  for (; 2 * k <= h; ++k) pair(hn::CappedTag<T, 1>(), k, k, h - k);
}

// Calls pair(d, turn, at, mirror, flip) for the numbers k and h - k, k in [1, h / 2], of a batch;
// `flip` brings those at `mirror` into the order of those at `at`.
template <class T, class Pair>
HWY_INLINE void each_half(const Circle<T>& turns, int64_t h, int64_t batch, Pair&& pair) {
  if (batch == 1)
    return each_pair_of_row<T>(h, [&](auto d, int64_t k, int64_t at, int64_t mirror) HWY_ATTR {
      const auto flip = [d](auto x) HWY_ATTR { return reversed(d, x); };
      pair(d, load(d, turns.re.data(), turns.im.data(), k), at, mirror, flip);
    });
  with_lanes<T>(batch, [&](auto d) HWY_ATTR {
    const auto keep = [](auto x) HWY_ATTR { return x; };
    for (int64_t k = 1; 2 * k <= h; ++k) {
      const auto turn = spread(d, turns, static_cast<size_t>(k));
      each_position(d, batch, [&](int64_t b) HWY_ATTR {
        pair(d, turn, k * batch + b, (h - k) * batch + b, keep);
      });
    }
  });
}

template <class T>
HWY_INLINE void split_all(const Circle<T>& turns, const Work<T>& w, int64_t h, int64_t batch) {
  // X[0] and X[h] are both of Z[0].
  for (int64_t b = 0; b < batch; ++b) {
    w.other_re[b] = w.re[b] + w.im[b];
    w.other_re[h * batch + b] = w.re[b] - w.im[b];
    w.other_im[b] = w.other_im[h * batch + b] = T(0);
  }
  const auto pair = [&](auto d, auto turn, int64_t at, int64_t mirror, auto flip) HWY_ATTR {
    Number<decltype(d)> low, high;
    split_pair(d, turn, load(d, w.re, w.im, at), flip(load(d, w.re, w.im, mirror)), &low, &high);
    store(d, low, w.other_re, w.other_im, at);
    store(d, flip(high), w.other_re, w.other_im, mirror);
  };
  each_half(turns, h, batch, pair);
}

template <class T>
HWY_INLINE void join_all(const Circle<T>& turns, const Work<T>& w, int64_t h, int64_t batch) {
  // The imaginary parts of X[0] and X[h] count as 0.
  for (int64_t b = 0; b < batch; ++b) {
    const T first = w.other_re[b], last = w.other_re[h * batch + b];
    w.re[b] = first + last;
    w.im[b] = first - last;
  }
  const auto pair = [&](auto d, auto turn, int64_t at, int64_t mirror, auto flip) HWY_ATTR {
    Number<decltype(d)> low, high;
    join_pair(d, turn, load(d, w.other_re, w.other_im, at),
              flip(load(d, w.other_re, w.other_im, mirror)), &low, &high);
    store(d, low, w.re, w.im, at);
    store(d, flip(high), w.re, w.im, mirror);
  };
  each_half(turns, h, batch, pair);
}

constexpr int kMostPairs = static_cast<int>(kLargestRadix / 2) + 1;

// For the results k to k + kCount - 1 of as many points as there are roots: put(k, even, odd) with
// even = first + the sum of cosine[j] Re(root[j k]), odd = that of sine[j] Im(root[j k]).
template <int kCount, class D, class T, class Put>
HWY_INLINE void real_results(D d, const Circle<T>& roots, int k, hn::Vec<D> first,
                             const hn::Vec<D>* cosine, const hn::Vec<D>* sine, Put&& put) {
  const int radix = static_cast<int>(roots.re.size());
  hn::Vec<D> even[kCount], odd[kCount];
  int at[kCount];
  for (int c = 0; c < kCount; ++c) {
    even[c] = first;
    odd[c] = hn::Zero(d);
    at[c] = k + c;
  }
  for (int j = 1; j <= radix / 2; ++j) {
    for (int c = 0; c < kCount; ++c) {
      const Number<D> root = spread(d, roots, static_cast<size_t>(at[c]));
      even[c] = hn::MulAdd(root.re, cosine[j], even[c]);
      odd[c] = hn::MulAdd(root.im, sine[j], odd[c]);
      at[c] += k + c;
      at[c] -= at[c] >= radix ? radix : 0;
    }
  }
  for (int c = 0; c < kCount; ++c) put(k + c, even[c], odd[c]);
}
template <class D, class T, class Put>
HWY_INLINE void all_real_results(D d, const Circle<T>& roots, hn::Vec<D> first,
                                 const hn::Vec<D>* cosine, const hn::Vec<D>* sine, Put&& put) {
  const int half = static_cast<int>(roots.re.size()) / 2;
  int k = 1;
  for (; k + 3 <= half; k += 4) real_results<4>(d, roots, k, first, cosine, sine, put);
  for (; k <= half; ++k) real_results<1>(d, roots, k, first, cosine, sine, put);
}

// The transform of real points get(j), an odd number: put(k, number) for the first half and 0.
template <class D, class T, class Get, class Put>
HWY_INLINE void points_of_reals(D d, const Circle<T>& roots, Get&& get, Put&& put) {
  const int radix = static_cast<int>(roots.re.size());
  const auto first = get(0);
  hn::Vec<D> sums[kMostPairs], differences[kMostPairs], total = first;
  for (int j = 1; j <= radix / 2; ++j) {
    const auto a = get(j), b = get(radix - j);
    sums[j] = hn::Add(a, b);
    differences[j] = hn::Sub(a, b);
    total = hn::Add(total, sums[j]);
  }
  put(0, Number<D>{total, hn::Zero(d)});
  const auto result = [&](int k, hn::Vec<D> even, hn::Vec<D> odd) HWY_ATTR {
    put(k, Number<D>{even, odd});
  };
  all_real_results(d, roots, first, sums, differences, result);
}

// The way back, where get(k) are the numbers of the first half and 0: put(j, real number).
template <class D, class T, class Get, class Put>
HWY_INLINE void reals_of_points(D d, const Circle<T>& roots, Get&& get, Put&& put) {
  const int radix = static_cast<int>(roots.re.size());
  const auto first = get(0).re;
  hn::Vec<D> cosine[kMostPairs], sine[kMostPairs], total = first;
  for (int k = 1; k <= radix / 2; ++k) {
    const Number<D> x = get(k);  // stands for two
    cosine[k] = hn::Add(x.re, x.re);
    sine[k] = hn::Add(x.im, x.im);
    total = hn::Add(total, cosine[k]);
  }
  put(0, total);
  const auto result = [&](int j, hn::Vec<D> even, hn::Vec<D> odd) HWY_ATTR {
    put(j, hn::Add(even, odd));
    put(radix - j, hn::Sub(even, odd));
  };
  all_real_results(d, roots, first, cosine, sine, result);
}

template <class T>
HWY_INLINE void divide(const Stage<T>& stage, const Work<T>& w, int64_t batch) {
  const int64_t groups = stage.groups, kept = stage.radix / 2 + 1;
  const Circle<T>& turns = stage.twiddles;
  if (batch == 1)
    return with_lanes<T>(groups, [&](auto d) HWY_ATTR {
      using D = decltype(d);
      Mixed<D> mixed;
      each_position(d, groups, [&](int64_t p) HWY_ATTR {
        const auto get = [&](int j) HWY_ATTR { return hn::LoadU(d, w.re + p + groups * j); };
        const auto put = [&](int k, Number<D> x) HWY_ATTR {
          if (k > 0) x = x * load(d, turns.re.data(), turns.im.data(), (k - 1) * groups + p);
          mixed.put(d, k, x);
        };
        points_of_reals(d, stage.roots, get, put);
        mixed.store(d, kept, w.other_re + kept * p, w.other_im + kept * p);
      });
    });
  with_lanes<T>(batch, [&](auto d) HWY_ATTR {
    using D = decltype(d);
    for (int64_t p = 0; p < groups; ++p) {
      each_position(d, batch, [&](int64_t b) HWY_ATTR {
        const auto get = [&](int j)
                             HWY_ATTR { return hn::LoadU(d, w.re + (p + groups * j) * batch + b); };
        const auto put = [&](int k, Number<D> x) HWY_ATTR {
          if (k > 0) x = x * spread(d, turns, static_cast<size_t>((k - 1) * groups + p));
          store(d, x, w.other_re, w.other_im, (p * kept + k) * batch + b);
        };
        points_of_reals(d, stage.roots, get, put);
      });
    }
  });
}

template <class T>
HWY_INLINE void unite(const Stage<T>& stage, const Work<T>& w, int64_t batch) {
  const int64_t groups = stage.groups, kept = stage.radix / 2 + 1;
  const Circle<T>& turns = stage.twiddles;
  if (batch == 1)
    return with_lanes<T>(groups, [&](auto d) HWY_ATTR {
      using D = decltype(d);
      Mixed<D> mixed;
      each_position(d, groups, [&](int64_t p) HWY_ATTR {
        mixed.load(d, kept, w.re + kept * p, w.im + kept * p);
        const auto get = [&](int k) HWY_ATTR {
          if (k == 0) return mixed.get(d, k);
          const int64_t at = (k - 1) * groups + p;
          return mixed.get(d, k) * conjugate(load(d, turns.re.data(), turns.im.data(), at));
        };
        const auto put = [&](int j, hn::Vec<D> x)
                             HWY_ATTR { hn::StoreU(x, d, w.other_re + p + groups * j); };
        reals_of_points(d, stage.roots, get, put);
      });
    });
  with_lanes<T>(batch, [&](auto d) HWY_ATTR {
    using D = decltype(d);
    for (int64_t p = 0; p < groups; ++p) {
      each_position(d, batch, [&](int64_t b) HWY_ATTR {
        const auto get = [&](int k) HWY_ATTR {
          const Number<D> x = load(d, w.re, w.im, (p * kept + k) * batch + b);
          if (k == 0) return x;
          return x * conjugate(spread(d, turns, static_cast<size_t>((k - 1) * groups + p)));
        };
        const auto put = [&](int j, hn::Vec<D> x) HWY_ATTR {
          hn::StoreU(x, d, w.other_re + (p + groups * j) * batch + b);
        };
        reals_of_points(d, stage.roots, get, put);
      });
    }
  });
}

// Highway's table of targets holds functions that are no templates.
void split_halves_f32(const Circle<float>& turns, const Work<float>& w, int64_t h, int64_t batch) {
  split_all(turns, w, h, batch);
}
void split_halves_f64(const Circle<double>& turns, const Work<double>& w, int64_t h,
                      int64_t batch) {
  split_all(turns, w, h, batch);
}
void join_halves_f32(const Circle<float>& turns, const Work<float>& w, int64_t h, int64_t batch) {
  join_all(turns, w, h, batch);
}
void join_halves_f64(const Circle<double>& turns, const Work<double>& w, int64_t h, int64_t batch) {
  join_all(turns, w, h, batch);
}
void divide_reals_f32(const Stage<float>& stage, const Work<float>& w, int64_t batch) {
  divide(stage, w, batch);
}
void divide_reals_f64(const Stage<double>& stage, const Work<double>& w, int64_t batch) {
  divide(stage, w, batch);
}
void unite_reals_f32(const Stage<float>& stage, const Work<float>& w, int64_t batch) {
  unite(stage, w, batch);
}
void unite_reals_f64(const Stage<double>& stage, const Work<double>& w, int64_t batch) {
  unite(stage, w, batch);
}

}  // namespace HWY_NAMESPACE
}  // namespace moonlet::cpu::fft
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace moonlet::cpu::fft {
HWY_EXPORT(split_halves_f32);
HWY_EXPORT(split_halves_f64);
HWY_EXPORT(join_halves_f32);
HWY_EXPORT(join_halves_f64);
HWY_EXPORT(divide_reals_f32);
HWY_EXPORT(divide_reals_f64);
HWY_EXPORT(unite_reals_f32);
HWY_EXPORT(unite_reals_f64);
void split_halves(const Circle<float>& turns, const Work<float>& w, int64_t h, int64_t batch) {
  HWY_DYNAMIC_DISPATCH(split_halves_f32)(turns, w, h, batch);
}
void split_halves(const Circle<double>& turns, const Work<double>& w, int64_t h, int64_t batch) {
  HWY_DYNAMIC_DISPATCH(split_halves_f64)(turns, w, h, batch);
}
void join_halves(const Circle<float>& turns, const Work<float>& w, int64_t h, int64_t batch) {
  HWY_DYNAMIC_DISPATCH(join_halves_f32)(turns, w, h, batch);
}
void join_halves(const Circle<double>& turns, const Work<double>& w, int64_t h, int64_t batch) {
  HWY_DYNAMIC_DISPATCH(join_halves_f64)(turns, w, h, batch);
}
void divide_reals(const Stage<float>& stage, const Work<float>& w, int64_t batch) {
  HWY_DYNAMIC_DISPATCH(divide_reals_f32)(stage, w, batch);
}
void divide_reals(const Stage<double>& stage, const Work<double>& w, int64_t batch) {
  HWY_DYNAMIC_DISPATCH(divide_reals_f64)(stage, w, batch);
}
void unite_reals(const Stage<float>& stage, const Work<float>& w, int64_t batch) {
  HWY_DYNAMIC_DISPATCH(unite_reals_f32)(stage, w, batch);
}
void unite_reals(const Stage<double>& stage, const Work<double>& w, int64_t batch) {
  HWY_DYNAMIC_DISPATCH(unite_reals_f64)(stage, w, batch);
}
}  // namespace moonlet::cpu::fft
#endif
