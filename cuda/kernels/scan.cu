// cuda/kernels/scan.cu: running sums, products and extremes.
#include "cuda/kernels/common/scan.cuh"

#include <cmath>

#include "cuda/kernels/common/rows.cuh"
#include "cuda/kernels/complex_math.h"
#include "tensor/functors/functor_math.h"
#include "tensor/kernels_scan.h"

namespace moonlet::cuda {

namespace {

// Complex numbers have their own, beside them.
using fn::vadd;
using fn::vexp;
using fn::vlog;
using fn::vlog1p;
using fn::vmax;
using fn::vmin;
using fn::vmul;

template <class C, bool kProduct>
struct Running : ScanByElements {
  Array x, y;
  Running(const Tensor& from, const Tensor& to) : x(array(from)), y(array(to)) {}
  __device__ C start() const { return C(kProduct ? 1 : 0); }
  __device__ C load(int64_t at, int64_t) const { return x.get<C>(at); }
  __device__ C combine(C a, C b) const { return kProduct ? vmul(a, b) : vadd(a, b); }
  __device__ void store(int64_t at, C v) const { y.set<C>(at, v); }
};

// The same of one dtype, in packs.
template <class C, bool kProduct, int kBytes>
struct PackedRunning : Running<C, kProduct> {
  enum { kElement = kBytes, kItems = 16 / kBytes };
  bool aligned;
  // Of lines that begin at multiples of `unit` elements.
  PackedRunning(const Tensor& from, const Tensor& to, int64_t unit)
      : Running<C, kProduct>(from, to),
        aligned(row_source(from, unit).aligned && row_source(to, unit).aligned) {}
  __device__ PackSource source() const {
    const Code code = this->x.dtype == DType::BFloat16 ? Code::kBFloat16 : Code::kPlain;
    return {this->x.data, code, aligned};
  }
  __device__ char* target() const { return this->y.data; }
};

// False where elements are to be read one by one.
template <bool kProduct>
bool running_packs(const Call& call, const DimSplit& s, const Tensor& x, const Tensor& y) {
  const bool one_by_one = s.inner != 1 || x.dtype() != y.dtype() || x.numel() == 0;
  if (one_by_one || (!is_floating(x.dtype()) && x.dtype() != DType::Int64)) return false;
  // Of a single line all packs are whole but the last.
  const int64_t unit = s.outer == 1 ? 16 : s.size;
  const auto run = [&]<class C, int kBytes>() {
    scan_by<C>(call, s, PackedRunning<C, kProduct, kBytes>(x, y, unit));
  };
  if (x.dtype() == DType::Int64)
    run.template operator()<int64_t, 8>();
  else
    visit_floats(x.dtype(), run);
  return true;
}

template <bool kProduct>
void running(const char* op, const Tensor& x, int64_t dim, Tensor& y) {
  const Call call(x, op);
  const Tensor source = contiguous(x);
  const DimSplit s = split_at(x.sizes(), dim);
  if (running_packs<kProduct>(call, s, source, y)) return;
  visit_device_compute(y.dtype(),
                       [&]<class C>() { scan_by<C>(call, s, Running<C, kProduct>(source, y)); });
}

template <class C>
struct RunningLogSumExp : ScanByElements {
  Array x, y;
  RunningLogSumExp(const Tensor& from, const Tensor& to) : x(array(from)), y(array(to)) {}
  __device__ C start() const { return C(-HUGE_VAL); }
  __device__ C load(int64_t at, int64_t) const { return x.get<C>(at); }
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
struct RunningExtreme : ScanByElements {
  Array x, values;
  int64_t* indices;
  bool largest;
  RunningExtreme(const Tensor& from, const Tensor& best, const Tensor& where, bool is_largest)
      : x(array(from)),
        values(array(best)),
        indices(where.elements<int64_t>()),
        largest(is_largest) {}
  __device__ Best<C> start() const { return {C(0), 0}; }
  __device__ Best<C> load(int64_t at, int64_t along) const { return {x.get<C>(at), along + 1}; }
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
        scan_by<Best<C>>(call, s, RunningExtreme<C>(source, best, where, largest));
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
    scan_by<C>(call, split_at(x.sizes(), dim), RunningLogSumExp<C>(source, y));
  });
}

void cummax(const Tensor& x, int64_t dim, Tensor& values, Tensor& indices) {
  running_extreme("cummax", x, dim, true, values, indices);
}
void cummin(const Tensor& x, int64_t dim, Tensor& values, Tensor& indices) {
  running_extreme("cummin", x, dim, false, values, indices);
}

}  // namespace moonlet::cuda
