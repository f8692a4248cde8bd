// cuda/kernels/reduce_stats.cu: variances, deviations, norms, logsumexp, and the positions of
// extremes.
#include <algorithm>
#include <cmath>

#include "cuda/kernels/common/reduce_packs.cuh"
#include "cuda/kernels/complex_math.h"
#include "tensor/functors/functor_math.h"
#include "tensor/kernels_reduce.h"

namespace moonlet::cuda {

namespace {

// Complex numbers have their own, beside them.
using fn::vabs;
using fn::vexp;
using fn::vhypot;
using fn::vlog;
using fn::vmax;
using fn::vmin;
using fn::vpow;
using fn::vsqrt;

template <class C>
struct PartOf {
  using type = C;
};
template <class T>
struct PartOf<Complex<T>> {
  using type = T;
};
// The type of C's real part.
template <class C>
using part_t = typename PartOf<C>::type;

template <class C>
__device__ part_t<C> real_part(C v) {
  if constexpr (is_device_complex<C>)
    return v.re;
  else
    return v;
}

template <class C>
struct WideOf {
  using type = double;
};
template <class T>
struct WideOf<Complex<T>> {
  using type = Complex<double>;
};
template <class C>
using wide_t = typename WideOf<C>::type;
template <class C>
__device__ wide_t<C> widened(C v) {
  if constexpr (is_device_complex<C>)
    return {static_cast<double>(v.re), static_cast<double>(v.im)};
  else
    return static_cast<double>(v);
}

// Sums in double: squares of floats leave their range, and a mean rounded to float is not enough
// beside a small deviation.
template <class C>
struct Total {
  using Acc = wide_t<C>;
  using Value = C;
  enum { kFlight = 4 };
  Array x;
  Acc* y;
  __device__ Acc start() const { return Acc(0); }
  __device__ Acc take(C v, int64_t, int64_t) const { return widened(v); }
  __device__ Acc load(int64_t at, int64_t, int64_t) const { return widened(x.get<C>(at)); }
  __device__ Acc combine(Acc a, Acc b) const { return a + b; }
  __device__ void finish(Acc total, int64_t out) const { y[out] = total; }
};

// The second pass: squared distances from the mean, whose sum the first pass left; `root`: the root
// of their mean.
template <class C>
struct Variance {
  using Acc = double;
  using Value = C;
  enum { kFlight = 4 };
  Array x, y;
  const wide_t<C>* totals;
  double count, divisor;
  bool root;
  __device__ Acc start() const { return Acc(0); }
  __device__ Acc load(int64_t at, int64_t out, int64_t) const { return take(x.get<C>(at), out, 0); }
  __device__ Acc take(C v, int64_t out, int64_t) const {
    const wide_t<C> distance = widened(v) - totals[out] / wide_t<C>(count);
    if constexpr (is_device_complex<C>)
      return distance.re * distance.re + distance.im * distance.im;
    else
      return distance * distance;
  }
  __device__ Acc combine(Acc a, Acc b) const { return a + b; }
  __device__ void finish(Acc total, int64_t out) const {
    y.set<Acc>(out, root ? sqrt(total / divisor) : total / divisor);
  }
};

enum NormKind { kCount, kSum, kEuclid, kLargest, kSmallest, kPower };

// Of magnitudes of type C; the kind is kPower or one of the others. Powers are of the ratios to the
// largest magnitude, or the smallest where p is negative: theirs alone might leave the range.
template <class C, bool kPowers>
struct Norm {
  using Acc = std::conditional_t<kPowers, C, double>;
  using Value = C;
  enum { kFlight = kPowers ? 1 : 4 };
  Array x, y;
  NormKind kind;
  C p;
  bool complex;
  const C* extremes;  // with powers
  __device__ C unit(int64_t out) const {
    const C most = extremes[out];
    return most > C(0) && most < C(HUGE_VAL) ? most : C(1);
  }
  __device__ Acc start() const { return kind == kSmallest ? Acc(HUGE_VAL) : Acc(0); }
  __device__ Acc take(C given, int64_t out, int64_t) const {
    if constexpr (kPowers) return vpow(vabs(given) / unit(out), p);
    const Acc v = static_cast<Acc>(vabs(given));
    return kind == kCount ? (v != Acc(0) ? Acc(1) : Acc(0)) : kind == kEuclid ? v * v : v;
  }
  __device__ Acc load(int64_t at, int64_t out, int64_t) const {
    if (!complex) return take(x.get<C>(at), out, 0);
    const Complex<C> v = x.get<Complex<C>>(at);
    return take(vhypot(v.re, v.im), out, 0);
  }
  __device__ Acc combine(Acc a, Acc b) const {
    if (kPowers || (kind != kLargest && kind != kSmallest)) return a + b;
    if (a != a) return a;
    if (b != b) return b;
    return kind == kLargest ? vmax(a, b) : vmin(a, b);
  }
  __device__ void finish(Acc total, int64_t out) const {
    if constexpr (kPowers)
      y.set<C>(out, vpow(total, C(1) / p) * unit(out));
    else
      y.set<Acc>(out, kind == kEuclid ? vsqrt(total) : total);
  }
};

// The sum of e^(x - m) relative to the largest (real part) m so far, both kept.
template <class C>
struct LogSumExp {
  using Part = part_t<C>;
  struct Acc {
    Part largest;
    C sum;
  };
  using Value = C;
  enum { kFlight = 1 };  // two exponentials each
  Array x, y;
  __device__ Acc start() const { return {Part(-HUGE_VAL), C(0)}; }
  __device__ Acc load(int64_t at, int64_t, int64_t) const { return take(x.get<C>(at), 0, 0); }
  __device__ Acc take(C v, int64_t, int64_t) const {
    if constexpr (is_device_complex<C>)
      return {v.re, vexp(C(Part(0), v.im))};
    else
      return {v, C(1)};
  }
  __device__ Acc combine(Acc a, Acc b) const {
    const Part m =
        a.largest != a.largest || b.largest != b.largest ? Part(NAN) : vmax(a.largest, b.largest);
    // Infinite values have no differences; they stand for themselves.
    if (m == Part(-HUGE_VAL) || m == Part(HUGE_VAL)) return {m, C(1)};
    return {m, a.sum * C(vexp(a.largest - m)) + b.sum * C(vexp(b.largest - m))};
  }
  __device__ void finish(Acc total, int64_t out) const {
    const bool infinite = total.largest == Part(HUGE_VAL) || total.largest == Part(-HUGE_VAL);
    y.set<C>(out, infinite ? C(total.largest) : C(total.largest) + vlog(total.sum));
  }
};

// The first extreme and its position; NaN wins.
template <class C>
struct ArgExtreme {
  struct Acc {
    C value;
    int64_t at;  // -1 before any value
  };
  using Value = C;
  enum { kFlight = 2 };
  Array x, values;
  int64_t* indices;
  bool largest;
  bool with_values;
  __device__ Acc start() const { return {C(0), -1}; }
  __device__ Acc take(C v, int64_t, int64_t position) const { return {v, position}; }
  __device__ Acc load(int64_t at, int64_t, int64_t position) const {
    return {x.get<C>(at), position};
  }
  __device__ Acc combine(Acc a, Acc b) const {
    if (b.at < 0) return a;
    if (a.at < 0) return b;
    const bool a_nan = a.value != a.value, b_nan = b.value != b.value;
    if (a_nan != b_nan) return a_nan ? a : b;
    if ((a_nan && b_nan) || a.value == b.value) return a.at < b.at ? a : b;
    return (largest ? a.value > b.value : a.value < b.value) ? a : b;
  }
  __device__ void finish(Acc total, int64_t out) const {
    if (with_values) values.set<C>(out, total.value);
    indices[out] = total.at + 1;
  }
};

void arg_extreme(const char* op, const Tensor& x, const Dims& dims, bool largest, Tensor* values,
                 Tensor& indices) {
  const Call call(x, op);
  visit_device_compute<dtypes::boolean | dtypes::real>(x.dtype(), [&]<class C>() {
    ArgExtreme<C> policy;
    policy.x = array(x);
    policy.values = array(values ? *values : x);
    policy.indices = indices.elements<int64_t>();
    policy.largest = largest;
    policy.with_values = values != nullptr;
    reduce_tensor(call, reduce_grid(x, dims), policy);
  });
}

Dims one_dim(const Tensor& x, std::optional<int64_t> dim) {
  return dim ? Dims{*dim} : all_dims(x.dim());
}

}  // namespace

namespace {
void spread(const char* op, const Tensor& x, const Dims& dim, double correction, bool root,
            Tensor& y) {
  const Call call(x, op);
  const ReduceGrid grid = reduce_grid(x, dim);
  visit_device_compute<dtypes::floating | dtypes::complex>(x.dtype(), [&]<class C>() {
    const DType wide = is_complex(x.dtype()) ? DType::Complex128 : DType::Float64;
    Tensor totals = call.scratch({grid.outs}, wide);
    auto* const sums = reinterpret_cast<wide_t<C>*>(totals.raw());
    reduce_tensor(call, grid, Total<C>{array(x), sums});
    const double count = static_cast<double>(grid.count);
    reduce_tensor(
        call, grid,
        Variance<C>{array(x), array(y), sums, count, std::max(count - correction, 0.0), root});
  });
}
}  // namespace

void var(const Tensor& x, const Dims& dim, double correction, bool, Tensor& y) {
  spread("var", x, dim, correction, false, y);
}

void std(const Tensor& x, const Dims& dim, double correction, bool, Tensor& y) {
  spread("std", x, dim, correction, true, y);
}

void norm(const Tensor& x, double p, const Dims& dim, bool, std::optional<DType>, Tensor& y) {
  const Call call(x, "norm");
  const NormKind kind = p == 0                   ? kCount
                        : p == 1                 ? kSum
                        : p == 2                 ? kEuclid
                        : std::isinf(p) && p > 0 ? kLargest
                        : std::isinf(p)          ? kSmallest
                                                 : kPower;
  visit_device_compute<dtypes::floating>(y.dtype(), [&]<class C>() {
    const ReduceGrid grid = reduce_grid(x, dim);
    const auto power = static_cast<C>(p);
    const bool complex = is_complex(x.dtype());
    if (kind != kPower)
      return reduce_tensor(call, grid,
                           Norm<C, false>{array(x), array(y), kind, power, complex, nullptr});
    const Tensor extremes = call.scratch({grid.outs}, dtype_of<C>);
    reduce_tensor(call, grid,
                  Norm<C, false>{array(x), array(extremes), p > 0 ? kLargest : kSmallest, power,
                                 complex, nullptr});
    reduce_by(call, grid,
              Norm<C, true>{array(x), array(y), kind, power, complex, extremes.elements<C>()});
  });
}

void logsumexp(const Tensor& x, const Dims& dim, bool, Tensor& y) {
  const Call call(x, "logsumexp");
  visit_device_compute<dtypes::floating | dtypes::complex>(y.dtype(), [&]<class C>() {
    reduce_tensor(call, reduce_grid(x, dim), LogSumExp<C>{array(x), array(y)});
  });
}

void max_dim(const Tensor& x, int64_t dim, bool, Tensor& values, Tensor& indices) {
  arg_extreme("max", x, Dims{dim}, true, &values, indices);
}
void min_dim(const Tensor& x, int64_t dim, bool, Tensor& values, Tensor& indices) {
  arg_extreme("min", x, Dims{dim}, false, &values, indices);
}
void argmax(const Tensor& x, std::optional<int64_t> dim, bool, Tensor& y) {
  arg_extreme("argmax", x, one_dim(x, dim), true, nullptr, y);
}
void argmin(const Tensor& x, std::optional<int64_t> dim, bool, Tensor& y) {
  arg_extreme("argmin", x, one_dim(x, dim), false, nullptr, y);
}

}  // namespace moonlet::cuda
