// cuda/scan.cu: running sums, products and extremes.
#include "cuda/scan.cuh"

#include <cmath>

#include "cuda/complex_math.h"
#include "tensor/functor_math.h"
#include "tensor/kernels_scan.h"

namespace moonlet::cuda {

namespace {

// Complex numbers have their own, beside them.
using fn::vexp;
using fn::vlog;
using fn::vlog1p;
using fn::vmax;
using fn::vmin;

template <class C, bool kProduct>
struct Running {
  Array x, y;
  __device__ C start() const { return C(kProduct ? 1 : 0); }
  __device__ C load(int64_t i) const { return x.get<C>(i); }
  __device__ C combine(C a, C b) const { return kProduct ? a * b : a + b; }
  __device__ void store(int64_t i, C v) const { y.set<C>(i, v); }
};

template <bool kProduct>
void running(const char* op, const Tensor& x, int64_t dim, Tensor& y) {
  const Call call(x, op);
  const Tensor source = contiguous(x);
  const DimSplit s = split_at(x.sizes(), dim);
  visit_device_compute(y.dtype(), [&]<class C>() {
    scan_by<C>(call, s, Running<C, kProduct>{array(source), array(y)});
  });
}

template <class C>
struct RunningLogSumExp {
  Array x, y;
  __device__ C start() const { return C(-HUGE_VAL); }
  __device__ C load(int64_t i) const { return x.get<C>(i); }
  __device__ C combine(C a, C b) const {
    if (a != a || b != b) return a + b;
    if constexpr (is_device_complex<C>) {
      const C& most = a.re < b.re ? b : a;
      const C& least = a.re < b.re ? a : b;
      if (is_infinite(most.re)) return most;
      return most + vlog(C(1) + vexp(least - most));
    } else {
      const C most = vmax(a, b);
      if (is_infinite(most)) return most;
      return most + vlog1p(vexp(vmin(a, b) - most));
    }
  }
  __device__ void store(int64_t i, C v) const { y.set<C>(i, v); }

 private:
  template <class Part>
  static __device__ bool is_infinite(Part v) {
    return v == Part(HUGE_VAL) || v == Part(-HUGE_VAL);
  }
};

// An extreme so far and its position from 1, 0 before any value.
template <class C>
struct Best {
  C value;
  int64_t at;
};

// Of equal ones the last; NaN before all.
template <class C>
struct RunningExtreme {
  Array x, values;
  int64_t* indices;
  DimSplit s;
  bool largest;
  __device__ Best<C> start() const { return {C(0), 0}; }
  __device__ Best<C> load(int64_t i) const { return {x.get<C>(i), i / s.inner % s.size + 1}; }
  __device__ Best<C> combine(Best<C> a, Best<C> b) const {
    if (b.at == 0) return a;
    if (a.at == 0 || b.value != b.value) return b;
    if (a.value != a.value) return a;
    return (largest ? b.value >= a.value : b.value <= a.value) ? b : a;
  }
  __device__ void store(int64_t i, Best<C> v) const {
    values.set<C>(i, v.value);
    indices[i] = v.at;
  }
};

void running_extreme(const char* op, const Tensor& x, int64_t dim, bool largest, Tensor& values,
                     Tensor& indices) {
  const Call call(x, op);
  const Tensor source = contiguous(x);
  const DimSplit s = split_at(x.sizes(), dim);
  with_contiguous(values, [&](Tensor& best) {
    with_contiguous(indices, [&](Tensor& where) {
      visit_device_compute<dtypes::boolean | dtypes::real>(x.dtype(), [&]<class C>() {
        scan_by<Best<C>>(
            call, s,
            RunningExtreme<C>{array(source), array(best), where.elements<int64_t>(), s, largest});
      });
    });
  });
}

}  // namespace

void cumsum(const Tensor& x, int64_t dim, std::optional<DType>, Tensor& y) {
  running<false>("cumsum", x, dim, y);
}
void cumprod(const Tensor& x, int64_t dim, std::optional<DType>, Tensor& y) {
  running<true>("cumprod", x, dim, y);
}
void logcumsumexp(const Tensor& x, int64_t dim, Tensor& y) {
  const Call call(x, "logcumsumexp");
  const Tensor source = contiguous(x);
  visit_device_compute<dtypes::floating | dtypes::complex>(y.dtype(), [&]<class C>() {
    scan_by<C>(call, split_at(x.sizes(), dim), RunningLogSumExp<C>{array(source), array(y)});
  });
}

void cummax(const Tensor& x, int64_t dim, Tensor& values, Tensor& indices) {
  running_extreme("cummax", x, dim, true, values, indices);
}
void cummin(const Tensor& x, int64_t dim, Tensor& values, Tensor& indices) {
  running_extreme("cummin", x, dim, false, values, indices);
}

}  // namespace moonlet::cuda
