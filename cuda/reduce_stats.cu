// cuda/reduce_stats.cu: variances, norms, logsumexp, and the positions of extremes.
#include <algorithm>
#include <cmath>

#include "cuda/reduce.cuh"
#include "tensor/functor_math.h"
#include "tensor/kernels_reduce.h"

namespace moonlet::cuda {

namespace {

using namespace fn;  // NOLINT(google-build-using-namespace)

template <class C>
struct Total {
  using Acc = C;
  Array x;
  C* y;
  __device__ C start() const { return C(0); }
  __device__ C load(int64_t at, int64_t, int64_t) const { return x.get<C>(at); }
  __device__ C combine(C a, C b) const { return a + b; }
  __device__ void finish(C total, int64_t out) const { y[out] = total; }
};

// The second pass: squared distances from the mean, whose sum the first pass left.
template <class C>
struct Variance {
  using Acc = C;
  Array x, y;
  const C* totals;
  C count, divisor;
  __device__ C start() const { return C(0); }
  __device__ C load(int64_t at, int64_t out, int64_t) const {
    const C distance = x.get<C>(at) - totals[out] / count;
    return distance * distance;
  }
  __device__ C combine(C a, C b) const { return a + b; }
  __device__ void finish(C total, int64_t out) const { y.set<C>(out, total / divisor); }
};

enum NormKind { kCount, kSum, kEuclid, kLargest, kSmallest, kPower };

template <class C>
struct Norm {
  using Acc = C;
  Array x, y;
  NormKind kind;
  C p;
  __device__ C start() const { return kind == kSmallest ? C(HUGE_VAL) : C(0); }
  __device__ C load(int64_t at, int64_t, int64_t) const {
    const C v = vabs(x.get<C>(at));
    switch (kind) {
      case kCount: return v != C(0) ? C(1) : C(0);
      case kEuclid: return v * v;
      case kPower: return vpow(v, p);
      default: return v;
    }
  }
  __device__ C combine(C a, C b) const {
    if (kind != kLargest && kind != kSmallest) return a + b;
    if (a != a) return a;
    if (b != b) return b;
    return kind == kLargest ? vmax(a, b) : vmin(a, b);
  }
  __device__ void finish(C total, int64_t out) const {
    y.set<C>(out, kind == kEuclid ? vsqrt(total) : kind == kPower ? vpow(total, C(1) / p) : total);
  }
};

// The sum of e^(x - m) relative to the largest m so far, both kept.
template <class C>
struct LogSumExp {
  struct Acc {
    C largest, sum;
  };
  Array x, y;
  __device__ Acc start() const { return {C(-HUGE_VAL), C(0)}; }
  __device__ Acc load(int64_t at, int64_t, int64_t) const { return {x.get<C>(at), C(1)}; }
  __device__ Acc combine(Acc a, Acc b) const {
    const C m =
        a.largest != a.largest || b.largest != b.largest ? C(NAN) : vmax(a.largest, b.largest);
    // Infinite values have no differences; they stand for themselves.
    if (m == C(-HUGE_VAL) || m == C(HUGE_VAL)) return {m, C(1)};
    return {m, a.sum * vexp(a.largest - m) + b.sum * vexp(b.largest - m)};
  }
  __device__ void finish(Acc total, int64_t out) const {
    const bool infinite = total.largest == C(HUGE_VAL) || total.largest == C(-HUGE_VAL);
    y.set<C>(out, infinite ? total.largest : total.largest + vlog(total.sum));
  }
};

// The first extreme and its position; NaN wins.
template <class C>
struct ArgExtreme {
  struct Acc {
    C value;
    int64_t at;  // -1 before any value
  };
  Array x, values;
  int64_t* indices;
  bool largest;
  bool with_values;
  __device__ Acc start() const { return {C(0), -1}; }
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
    reduce_by(call, reduce_grid(x, dims), policy);
  });
}

Dims one_dim(const Tensor& x, std::optional<int64_t> dim) {
  return dim ? Dims{*dim} : all_dims(x.dim());
}

}  // namespace

void var(const Tensor& x, const Dims& dim, int64_t correction, bool, Tensor& y) {
  const Call call(x, "var");
  const ReduceGrid grid = reduce_grid(x, dim);
  visit_device_compute<dtypes::floating>(x.dtype(), [&]<class C>() {
    Tensor totals = call.scratch({grid.outs}, dtype_of<C>);
    reduce_by(call, grid, Total<C>{array(x), totals.elements<C>()});
    Variance<C> policy{array(x), array(y), totals.elements<C>(), static_cast<C>(grid.count), C(0)};
    policy.divisor = static_cast<C>(
        std::max(static_cast<double>(grid.count) - static_cast<double>(correction), 0.0));
    reduce_by(call, grid, policy);
  });
}

void norm(const Tensor& x, double p, const Dims& dim, bool, Tensor& y) {
  const Call call(x, "norm");
  const NormKind kind = p == 0                   ? kCount
                        : p == 1                 ? kSum
                        : p == 2                 ? kEuclid
                        : std::isinf(p) && p > 0 ? kLargest
                        : std::isinf(p)          ? kSmallest
                                                 : kPower;
  visit_device_compute<dtypes::floating>(x.dtype(), [&]<class C>() {
    reduce_by(call, reduce_grid(x, dim), Norm<C>{array(x), array(y), kind, static_cast<C>(p)});
  });
}

void logsumexp(const Tensor& x, const Dims& dim, bool, Tensor& y) {
  const Call call(x, "logsumexp");
  visit_device_compute<dtypes::floating>(x.dtype(), [&]<class C>() {
    reduce_by(call, reduce_grid(x, dim), LogSumExp<C>{array(x), array(y)});
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
