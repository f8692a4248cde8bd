// tensor/cpu/fft_simd.cpp: the passes of Fourier transforms on vectors, one version per instruction
// set. A pass is Stockham's (Cochran et al., "What is the fast Fourier transform?", 1967): it reads
// x[q + span (p + groups j)] and writes y[q + span (radix p + k)], so no reordering is needed, and
// neighbouring q are the lanes of a vector.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/cpu/fft_simd.cpp"
//
#include "tensor/cpu/pointwise_targets.h"
//
#include "hwy/foreach_target.h"
//
#include "hwy/highway.h"
#include "tensor/cpu/fft.h"

HWY_BEFORE_NAMESPACE();
namespace moonlet::cpu::fft {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <class D>
struct Number {
  hn::Vec<D> re, im;
};
template <class D>
HWY_INLINE Number<D> operator+(Number<D> a, Number<D> b) {
  return {hn::Add(a.re, b.re), hn::Add(a.im, b.im)};
}
template <class D>
HWY_INLINE Number<D> operator-(Number<D> a, Number<D> b) {
  return {hn::Sub(a.re, b.re), hn::Sub(a.im, b.im)};
}
template <class D>
HWY_INLINE Number<D> operator*(Number<D> a, Number<D> b) {
  return {hn::NegMulAdd(a.im, b.im, hn::Mul(a.re, b.re)),
          hn::MulAdd(a.im, b.re, hn::Mul(a.re, b.im))};
}
// a + f b, a - i b, a + i b
template <class D>
HWY_INLINE Number<D> add_scaled(Number<D> a, hn::Vec<D> f, Number<D> b) {
  return {hn::MulAdd(f, b.re, a.re), hn::MulAdd(f, b.im, a.im)};
}
template <class D>
HWY_INLINE Number<D> scaled(hn::Vec<D> f, Number<D> b) {
  return {hn::Mul(f, b.re), hn::Mul(f, b.im)};
}
template <class D>
HWY_INLINE Number<D> minus_i(Number<D> a, Number<D> b) {
  return {hn::Add(a.re, b.im), hn::Sub(a.im, b.re)};
}
template <class D>
HWY_INLINE Number<D> plus_i(Number<D> a, Number<D> b) {
  return {hn::Sub(a.re, b.im), hn::Add(a.im, b.re)};
}

template <class D, class T>
HWY_INLINE Number<D> load(D d, const T* re, const T* im, int64_t at) {
  return {hn::LoadU(d, re + at), hn::LoadU(d, im + at)};
}
template <class D, class T>
HWY_INLINE Number<D> spread(D d, const Circle<T>& circle, size_t at) {
  return {hn::Set(d, circle.re[at]), hn::Set(d, circle.im[at])};
}
template <class D, class T>
HWY_INLINE void store(D d, Number<D> v, T* re, T* im, int64_t at) {
  hn::StoreU(v.re, d, re + at);
  hn::StoreU(v.im, d, im + at);
}

// The transforms of a few points, in place.
struct Two {
  static constexpr int kRadix = 2;
  template <class D>
  static HWY_INLINE void apply(D, Number<D>* x) {
    const Number<D> a = x[0];
    x[0] = a + x[1];
    x[1] = a - x[1];
  }
};
struct Three {
  static constexpr int kRadix = 3;
  template <class D>
  static HWY_INLINE void apply(D d, Number<D>* x) {
    using T = hn::TFromD<D>;
    const Number<D> sum = x[1] + x[2];
    const Number<D> off = scaled(hn::Set(d, T(0.86602540378443864676)), x[1] - x[2]);
    const Number<D> mid = add_scaled(x[0], hn::Set(d, T(-0.5)), sum);
    x[0] = x[0] + sum;
    x[1] = minus_i(mid, off);
    x[2] = plus_i(mid, off);
  }
};
struct Four {
  static constexpr int kRadix = 4;
  template <class D>
  static HWY_INLINE void apply(D, Number<D>* x) {
    const Number<D> a = x[0] + x[2], b = x[0] - x[2], c = x[1] + x[3], e = x[1] - x[3];
    x[0] = a + c;
    x[1] = minus_i(b, e);
    x[2] = a - c;
    x[3] = plus_i(b, e);
  }
};
struct Five {
  static constexpr int kRadix = 5;
  template <class D>
  static HWY_INLINE void apply(D d, Number<D>* x) {
    using T = hn::TFromD<D>;
    // The cosines and sines of 72 and 144 degrees.
    const auto c1 = hn::Set(d, T(0.30901699437494742410)),
               c2 = hn::Set(d, T(-0.80901699437494742410));
    const auto s1 = hn::Set(d, T(0.95105651629515357212)),
               s2 = hn::Set(d, T(0.58778525229247312917));
    const Number<D> a1 = x[1] + x[4], b1 = x[1] - x[4], a2 = x[2] + x[3], b2 = x[2] - x[3];
    const Number<D> even1 = add_scaled(add_scaled(x[0], c1, a1), c2, a2);
    const Number<D> even2 = add_scaled(add_scaled(x[0], c2, a1), c1, a2);
    const Number<D> odd1 = add_scaled(scaled(s1, b1), s2, b2);
    const Number<D> odd2 = scaled(s2, b1) - scaled(s1, b2);
    x[0] = x[0] + a1 + a2;
    x[1] = minus_i(even1, odd1);
    x[2] = minus_i(even2, odd2);
    x[3] = plus_i(even2, odd2);
    x[4] = plus_i(even1, odd1);
  }
};
struct Eight {
  static constexpr int kRadix = 8;
  template <class D>
  static HWY_INLINE void apply(D d, Number<D>* x) {
    const auto half = hn::Set(d, hn::TFromD<D>(0.70710678118654752440));
    Number<D> e[4] = {x[0], x[2], x[4], x[6]}, o[4] = {x[1], x[3], x[5], x[7]};
    Four::apply(d, e);
    Four::apply(d, o);
    o[1] = scaled(half, minus_i(o[1], o[1]));
    const Number<D> third = scaled(half, plus_i(o[3], o[3]));
    x[0] = e[0] + o[0];
    x[1] = e[1] + o[1];
    x[2] = minus_i(e[2], o[2]);
    x[3] = e[3] - third;
    x[4] = e[0] - o[0];
    x[5] = e[1] - o[1];
    x[6] = plus_i(e[2], o[2]);
    x[7] = e[3] + third;
  }
};

// Calls body(q) for vectors that cover [0, span); the last may do places again, which is harmless
// as no pass reads what it writes.
template <class D, class Body>
HWY_INLINE void each_place(D d, int64_t span, Body&& body) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t q = 0; q + lanes <= span; q += lanes) body(q);
  if (span % lanes != 0) body(span - lanes);
}

template <class B, class D, class T>
void pass(D d, const Stage<T>& stage, const Work<T>& w, int64_t span) {
  constexpr int kRadix = B::kRadix;
  const int64_t groups = stage.groups, step = span * groups;
  for (int64_t p = 0; p < groups; ++p) {
    Number<D> turn[kRadix];
    for (int k = 1; k < kRadix; ++k)
      turn[k] = spread(d, stage.twiddles, static_cast<size_t>((k - 1) * groups + p));
    each_place(d, span, [&](int64_t q) {
      Number<D> x[kRadix];
      for (int j = 0; j < kRadix; ++j) x[j] = load(d, w.re, w.im, q + span * p + step * j);
      B::apply(d, x);
      const int64_t to = q + span * kRadix * p;
      store(d, x[0], w.other_re, w.other_im, to);
      for (int k = 1; k < kRadix; ++k)
        store(d, x[k] * turn[k], w.other_re, w.other_im, to + span * k);
    });
  }
}

// A pass whose radix is a prime without a butterfly: points j and radix - j are taken together, as
// the cosines of their angles are the same and the sines opposite.
template <class D, class T>
void pass_of_prime(D d, const Stage<T>& stage, const Work<T>& w, int64_t span) {
  constexpr int kMost = static_cast<int>(kLargestRadix / 2) + 1;
  const int radix = static_cast<int>(stage.radix), half = radix / 2;
  const int64_t groups = stage.groups, step = span * groups;
  for (int64_t p = 0; p < groups; ++p) {
    each_place(d, span, [&](int64_t q) {
      const int64_t from = q + span * p, to = q + span * radix * p;
      const Number<D> first = load(d, w.re, w.im, from);
      Number<D> sums[kMost], differences[kMost], total = first;
      for (int j = 1; j <= half; ++j) {
        const Number<D> a = load(d, w.re, w.im, from + step * j);
        const Number<D> b = load(d, w.re, w.im, from + step * (radix - j));
        sums[j] = a + b;
        differences[j] = a - b;
        total = total + sums[j];
      }
      store(d, total, w.other_re, w.other_im, to);
      for (int k = 1; k <= half; ++k) {
        Number<D> even = first, odd = {hn::Zero(d), hn::Zero(d)};
        for (int j = 1, at = k; j <= half; ++j, at = (at + k) % radix) {
          const Number<D> root = spread(d, stage.roots, static_cast<size_t>(at));
          even = add_scaled(even, root.re, sums[j]);
          odd = add_scaled(odd, root.im, differences[j]);
        }
        const int64_t low = (k - 1) * groups + p, high = (radix - k - 1) * groups + p;
        store(d, plus_i(even, odd) * spread(d, stage.twiddles, static_cast<size_t>(low)),
              w.other_re, w.other_im, to + span * k);
        store(d, minus_i(even, odd) * spread(d, stage.twiddles, static_cast<size_t>(high)),
              w.other_re, w.other_im, to + span * (radix - k));
      }
    });
  }
}

// The first pass of a single transform has a span of 1: neighbouring groups are the lanes instead,
// and results are stored interleaved.
template <class D, class T>
HWY_INLINE void store_mixed(D d, const Number<D>* x, Two, T* re, T* im, int64_t at) {
  hn::StoreInterleaved2(x[0].re, x[1].re, d, re + at);
  hn::StoreInterleaved2(x[0].im, x[1].im, d, im + at);
}
template <class D, class T>
HWY_INLINE void store_mixed(D d, const Number<D>* x, Three, T* re, T* im, int64_t at) {
  hn::StoreInterleaved3(x[0].re, x[1].re, x[2].re, d, re + at);
  hn::StoreInterleaved3(x[0].im, x[1].im, x[2].im, d, im + at);
}
template <class D, class T>
HWY_INLINE void store_mixed(D d, const Number<D>* x, Four, T* re, T* im, int64_t at) {
  hn::StoreInterleaved4(x[0].re, x[1].re, x[2].re, x[3].re, d, re + at);
  hn::StoreInterleaved4(x[0].im, x[1].im, x[2].im, x[3].im, d, im + at);
}

template <class B, class D, class T>
void first_pass(D d, const Stage<T>& stage, const Work<T>& w) {
  constexpr int kRadix = B::kRadix;
  const int64_t groups = stage.groups;
  each_place(d, groups, [&](int64_t p) {
    Number<D> x[kRadix];
    for (int j = 0; j < kRadix; ++j) x[j] = load(d, w.re, w.im, p + groups * j);
    B::apply(d, x);
    for (int k = 1; k < kRadix; ++k) {
      const int64_t at = (k - 1) * groups + p;
      x[k] = x[k] * load(d, stage.twiddles.re.data(), stage.twiddles.im.data(), at);
    }
    store_mixed(d, x, B(), w.other_re, w.other_im, kRadix * p);
  });
}

template <class D, class T>
void dispatch_pass(D d, const Stage<T>& stage, const Work<T>& w, int64_t span) {
  switch (stage.radix) {
    case 2: return pass<Two>(d, stage, w, span);
    case 3: return pass<Three>(d, stage, w, span);
    case 4: return pass<Four>(d, stage, w, span);
    case 5: return pass<Five>(d, stage, w, span);
    case 8: return pass<Eight>(d, stage, w, span);
    default: return pass_of_prime(d, stage, w, span);
  }
}

// Calls f with the widest vectors of at most `places` lanes.
template <class T, class F>
HWY_INLINE void with_lanes(int64_t places, F&& f) {
  const hn::ScalableTag<T> whole;
  if (places >= static_cast<int64_t>(hn::Lanes(whole))) return f(whole);
  if (places >= 8) return f(hn::CappedTag<T, 8>());
  if (places >= 4) return f(hn::CappedTag<T, 4>());
  if (places >= 2) return f(hn::CappedTag<T, 2>());
  f(hn::CappedTag<T, 1>());
}

template <class T>
HWY_INLINE void run(const Stage<T>& stage, const Work<T>& w, int64_t span) {
  const int64_t radix = stage.radix;
  if (span == 1 && radix <= 4) {
    return with_lanes<T>(stage.groups, [&](auto d) {
      if (radix == 2)
        first_pass<Two>(d, stage, w);
      else if (radix == 3)
        first_pass<Three>(d, stage, w);
      else
        first_pass<Four>(d, stage, w);
    });
  }
  with_lanes<T>(span, [&](auto d) { dispatch_pass(d, stage, w, span); });
}

template <class T>
HWY_INLINE void split(const T* x, T* re, T* im, int64_t count) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    hn::Vec<decltype(d)> a, b;
    hn::LoadInterleaved2(d, x + 2 * i, a, b);
    hn::StoreU(a, d, re + i);
    hn::StoreU(b, d, im + i);
  }
  for (; i < count; ++i) {
    re[i] = x[2 * i];
    im[i] = x[2 * i + 1];
  }
}

template <class T>
HWY_INLINE void join(const T* re, const T* im, T scale, T* y, int64_t count) {
  const hn::ScalableTag<T> d;
  const auto factor = hn::Set(d, scale);
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes)
    hn::StoreInterleaved2(hn::Mul(hn::LoadU(d, re + i), factor),
                          hn::Mul(hn::LoadU(d, im + i), factor), d, y + 2 * i);
  for (; i < count; ++i) {
    y[2 * i] = re[i] * scale;
    y[2 * i + 1] = im[i] * scale;
  }
}

template <class T>
HWY_INLINE void multiply_all(const Circle<T>& by, T* re, T* im, int64_t batch) {
  const size_t n = by.re.size();
  for (size_t i = 0; i < n; ++i) {
    const T c = by.re[i], s = by.im[i];
    for (int64_t b = 0; b < batch; ++b, ++re, ++im) {
      const T x = *re, y = *im;
      *re = x * c - y * s;
      *im = x * s + y * c;
    }
  }
}

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
      each_place(d, batch, [&](int64_t b) HWY_ATTR {
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

// Highway's table of targets holds functions that are no templates.
void run_f32(const Stage<float>& s, const Work<float>& w, int64_t span) { run(s, w, span); }
void run_f64(const Stage<double>& s, const Work<double>& w, int64_t span) { run(s, w, span); }
void split_f32(const float* x, float* re, float* im, int64_t n) { split(x, re, im, n); }
void split_f64(const double* x, double* re, double* im, int64_t n) { split(x, re, im, n); }
void join_f32(const float* re, const float* im, float scale, float* y, int64_t n) {
  join(re, im, scale, y, n);
}
void join_f64(const double* re, const double* im, double scale, double* y, int64_t n) {
  join(re, im, scale, y, n);
}
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
void multiply_f32(const Circle<float>& by, float* re, float* im, int64_t batch) {
  multiply_all(by, re, im, batch);
}
void multiply_f64(const Circle<double>& by, double* re, double* im, int64_t batch) {
  multiply_all(by, re, im, batch);
}

}  // namespace HWY_NAMESPACE
}  // namespace moonlet::cpu::fft
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace moonlet::cpu::fft {
HWY_EXPORT(run_f32);
HWY_EXPORT(run_f64);
HWY_EXPORT(split_f32);
HWY_EXPORT(split_f64);
HWY_EXPORT(join_f32);
HWY_EXPORT(join_f64);
HWY_EXPORT(split_halves_f32);
HWY_EXPORT(split_halves_f64);
HWY_EXPORT(join_halves_f32);
HWY_EXPORT(join_halves_f64);
HWY_EXPORT(multiply_f32);
HWY_EXPORT(multiply_f64);
void run_stage(const Stage<float>& stage, const Work<float>& work, int64_t span) {
  HWY_DYNAMIC_DISPATCH(run_f32)(stage, work, span);
}
void run_stage(const Stage<double>& stage, const Work<double>& work, int64_t span) {
  HWY_DYNAMIC_DISPATCH(run_f64)(stage, work, span);
}
void take_apart(const float* x, float* re, float* im, int64_t count) {
  HWY_DYNAMIC_DISPATCH(split_f32)(x, re, im, count);
}
void take_apart(const double* x, double* re, double* im, int64_t count) {
  HWY_DYNAMIC_DISPATCH(split_f64)(x, re, im, count);
}
void put_together(const float* re, const float* im, float scale, float* y, int64_t count) {
  HWY_DYNAMIC_DISPATCH(join_f32)(re, im, scale, y, count);
}
void put_together(const double* re, const double* im, double scale, double* y, int64_t count) {
  HWY_DYNAMIC_DISPATCH(join_f64)(re, im, scale, y, count);
}
void multiply(const Circle<float>& by, float* re, float* im, int64_t batch) {
  HWY_DYNAMIC_DISPATCH(multiply_f32)(by, re, im, batch);
}
void multiply(const Circle<double>& by, double* re, double* im, int64_t batch) {
  HWY_DYNAMIC_DISPATCH(multiply_f64)(by, re, im, batch);
}
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
}  // namespace moonlet::cpu::fft
#endif
