// tensor/cpu/fft/fft_simd.cpp: the passes of Fourier transforms on vectors, one version per
// instruction set. A pass is Stockham's (Cochran et al., "What is the fast Fourier transform?",
// 1967): it reads x[q + span (p + groups j)] and writes y[q + span (radix p + k)], so no reordering
// is needed, and neighbouring q are the lanes of a vector.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/cpu/fft/fft_simd.cpp"
//
#include "tensor/cpu/pointwise/pointwise_targets.h"
//
#include "hwy/foreach_target.h"
//
#include <type_traits>

#include "tensor/cpu/fft/fft_number-inl.h"

HWY_BEFORE_NAMESPACE();
namespace moonlet::cpu::fft {
namespace HWY_NAMESPACE {

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

template <class B, class D, class T>
void pass(D d, const Stage<T>& stage, const Work<T>& w, int64_t span) {
  constexpr int kRadix = B::kRadix;
  const int64_t groups = stage.groups, step = span * groups;
  for (int64_t p = 0; p < groups; ++p) {
    Number<D> turn[kRadix];
    for (int k = 1; k < kRadix; ++k)
      turn[k] = spread(d, stage.twiddles, static_cast<size_t>((k - 1) * groups + p));
    each_position(d, span, [&](int64_t q) {
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

// A radix known when this is compiled, so that loops over it are unrolled.
template <int kRadix>
using Constant = std::integral_constant<int, kRadix>;

// Results k to k + kCount - 1 of a prime's transform, and those that mirror them: put(k, number).
// `radix` is a constant or a number.
template <int kCount, class Radix, class D, class T, class Put>
HWY_INLINE void prime_results(Radix radix, D d, const Circle<T>& roots, int k, Number<D> first,
                              const Number<D>* sums, const Number<D>* differences, Put&& put) {
  Number<D> even[kCount], odd[kCount];
  int at[kCount];
  for (int c = 0; c < kCount; ++c) {
    even[c] = first;
    odd[c] = {hn::Zero(d), hn::Zero(d)};
    at[c] = k + c;
  }
  for (int j = 1; j <= radix / 2; ++j) {
    for (int c = 0; c < kCount; ++c) {
      const Number<D> root = spread(d, roots, static_cast<size_t>(at[c]));
      even[c] = add_scaled(even[c], root.re, sums[j]);
      odd[c] = add_scaled(odd[c], root.im, differences[j]);
      at[c] += k + c;
      at[c] -= at[c] >= radix ? radix : 0;
    }
  }
  for (int c = 0; c < kCount; ++c) {
    put(k + c, plus_i(even[c], odd[c]));
    put(radix - k - c, minus_i(even[c], odd[c]));
  }
}

// The transform of as many points as there are roots, an odd number: points j and radix - j are
// taken together, as the cosines of their angles are the same and the sines opposite. Point j is
// get(j), result k goes to put(k, number).
template <class Radix, class D, class T, class Get, class Put>
HWY_INLINE void prime_points(Radix radix, D d, const Circle<T>& roots, Get&& get, Put&& put) {
  constexpr int kMost = static_cast<int>(kLargestRadix / 2) + 1;
  const int half = radix / 2;
  const Number<D> first = get(0);
  Number<D> sums[kMost], differences[kMost], total = first;
  for (int j = 1; j <= half; ++j) {
    const Number<D> a = get(j), b = get(radix - j);
    sums[j] = a + b;
    differences[j] = a - b;
    total = total + sums[j];
  }
  put(0, total);
  int k = 1;
  for (; k + 1 <= half; k += 2) prime_results<2>(radix, d, roots, k, first, sums, differences, put);
  if (k <= half) prime_results<1>(radix, d, roots, k, first, sums, differences, put);
}

// A pass whose radix is a prime without a butterfly.
template <class Radix, class D, class T>
void pass_of_prime(Radix radix, D d, const Stage<T>& stage, const Work<T>& w, int64_t span) {
  const int64_t groups = stage.groups, step = span * groups;
  for (int64_t p = 0; p < groups; ++p) {
    each_position(d, span, [&](int64_t q) HWY_ATTR {
      const int64_t from = q + span * p, to = q + span * radix * p;
      const auto get = [&](int j) HWY_ATTR { return load(d, w.re, w.im, from + step * j); };
      const auto put = [&](int k, Number<D> x) HWY_ATTR {
        const size_t turn = static_cast<size_t>((k - 1) * groups + p);
        if (k > 0) x = x * spread(d, stage.twiddles, turn);
        store(d, x, w.other_re, w.other_im, to + span * k);
      };
      prime_points(radix, d, stage.roots, get, put);
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
template <class D, class T>
HWY_INLINE void store_mixed(D d, const Number<D>* x, Five, T* re, T* im, int64_t at) {
  Mixed<D> mixed;
  for (int k = 0; k < 5; ++k) mixed.put(d, k, x[k]);
  mixed.store(d, 5, re + at, im + at);
}

template <class B, class D, class T>
void first_pass(D d, const Stage<T>& stage, const Work<T>& w) {
  constexpr int kRadix = B::kRadix;
  const int64_t groups = stage.groups;
  each_position(d, groups, [&](int64_t p) {
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

template <class Radix, class D, class T>
void first_pass_of_prime(Radix radix, D d, const Stage<T>& stage, const Work<T>& w) {
  const int64_t groups = stage.groups;
  const T *re = stage.twiddles.re.data(), *im = stage.twiddles.im.data();
  Mixed<D> mixed;
  each_position(d, groups, [&](int64_t p) HWY_ATTR {
    const auto get = [&](int j) HWY_ATTR { return load(d, w.re, w.im, p + groups * j); };
    const auto put = [&](int k, Number<D> x) HWY_ATTR {
      mixed.put(d, k, k > 0 ? x * load(d, re, im, (k - 1) * groups + p) : x);
    };
    prime_points(radix, d, stage.roots, get, put);
    mixed.store(d, radix, w.other_re + radix * p, w.other_im + radix * p);
  });
}

template <class D, class T>
void dispatch_first_pass(D d, const Stage<T>& stage, const Work<T>& w) {
  switch (stage.radix) {
    case 2: return first_pass<Two>(d, stage, w);
    case 3: return first_pass<Three>(d, stage, w);
    case 4: return first_pass<Four>(d, stage, w);
    case 5: return first_pass<Five>(d, stage, w);
    case 7: return first_pass_of_prime(Constant<7>(), d, stage, w);
    case 11: return first_pass_of_prime(Constant<11>(), d, stage, w);
    default: return first_pass_of_prime(static_cast<int>(stage.radix), d, stage, w);
  }
}

template <class D, class T>
void dispatch_pass(D d, const Stage<T>& stage, const Work<T>& w, int64_t span) {
  switch (stage.radix) {
    case 2: return pass<Two>(d, stage, w, span);
    case 3: return pass<Three>(d, stage, w, span);
    case 4: return pass<Four>(d, stage, w, span);
    case 5: return pass<Five>(d, stage, w, span);
    case 8: return pass<Eight>(d, stage, w, span);
    case 7: return pass_of_prime(Constant<7>(), d, stage, w, span);
    case 11: return pass_of_prime(Constant<11>(), d, stage, w, span);
    default: return pass_of_prime(static_cast<int>(stage.radix), d, stage, w, span);
  }
}

template <class T>
HWY_INLINE void run(const Stage<T>& stage, const Work<T>& w, int64_t span) {
  if (span == 1 && stage.radix != 8)
    return with_lanes<T>(stage.groups, [&](auto d) { dispatch_first_pass(d, stage, w); });
  with_lanes<T>(span, [&](auto d) { dispatch_pass(d, stage, w, span); });
}

// Multiplies number i at (re, im) by turn(d, i) in vectors of d, from i on as far as they go;
// returns how far.
template <class D, class T, class Turn>
HWY_INLINE int64_t multiply_vectors(D d, T* re, T* im, int64_t i, int64_t count, Turn&& turn) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (; i + lanes <= count; i += lanes) store(d, load(d, re, im, i) * turn(d, i), re, im, i);
  return i;
}
template <class T, class Turn>
HWY_INLINE void multiply_row(T* re, T* im, int64_t count, Turn&& turn) {
  const int64_t done = multiply_vectors(hn::ScalableTag<T>(), re, im, 0, count, turn);
  multiply_vectors(hn::CappedTag<T, 1>(), re, im, done, count, turn);
}

template <class T>
HWY_INLINE void multiply_all(const Circle<T>& by, T* re, T* im, int64_t batch) {
  const int64_t n = static_cast<int64_t>(by.re.size());
  if (batch == 1)
    return multiply_row(re, im, n, [&](auto d, int64_t i) HWY_ATTR {
      return load(d, by.re.data(), by.im.data(), i);
    });
  for (int64_t i = 0; i < n; ++i) {
    const auto turn = [&](auto d, int64_t)
                          HWY_ATTR { return spread(d, by, static_cast<size_t>(i)); };
    multiply_row(re + i * batch, im + i * batch, batch, turn);
  }
}

// Highway's table of targets holds functions that are no templates.
void run_f32(const Stage<float>& s, const Work<float>& w, int64_t span) { run(s, w, span); }
void run_f64(const Stage<double>& s, const Work<double>& w, int64_t span) { run(s, w, span); }
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
HWY_EXPORT(multiply_f32);
HWY_EXPORT(multiply_f64);
void run_stage(const Stage<float>& stage, const Work<float>& work, int64_t span) {
  HWY_DYNAMIC_DISPATCH(run_f32)(stage, work, span);
}
void run_stage(const Stage<double>& stage, const Work<double>& work, int64_t span) {
  HWY_DYNAMIC_DISPATCH(run_f64)(stage, work, span);
}
void multiply(const Circle<float>& by, float* re, float* im, int64_t batch) {
  HWY_DYNAMIC_DISPATCH(multiply_f32)(by, re, im, batch);
}
void multiply(const Circle<double>& by, double* re, double* im, int64_t batch) {
  HWY_DYNAMIC_DISPATCH(multiply_f64)(by, re, im, batch);
}
}  // namespace moonlet::cpu::fft
#endif
