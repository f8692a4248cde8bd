// cuda/kernels/reduce.cu: sums, averages, products, extremes, truth and counts over dimensions.
#include "cuda/kernels/common/reduce_packs.cuh"
#include "cuda/kernels/complex_math.h"
#include "tensor/kernels_reduce.h"

namespace moonlet::cuda {

namespace {

// Values of x as C; the results go to y.
template <class C>
struct Values {
  using Acc = C;
  using Value = C;
  enum { kFlight = 4 };
  Array x, y;
  __device__ C take(C v, int64_t, int64_t) const { return v; }
  __device__ C load(int64_t at, int64_t, int64_t) const { return x.get<C>(at); }
  __device__ void finish(C total, int64_t out) const { y.set<C>(out, total); }
};

// With a count, what is stored is the average.
template <class C>
struct Sum : Values<C> {
  double count = -1;
  __device__ void finish(C total, int64_t out) const {
    this->y.template set<C>(out, count >= 0 ? total / C(count) : total);
  }
  __device__ C start() const { return C(0); }
  __device__ C combine(C a, C b) const { return fn::vadd(a, b); }
};

// NaN counts as 0.
template <class C>
struct NumberSum : Sum<C> {
  __device__ C take(C v, int64_t, int64_t) const { return v == v ? v : C(0); }
  __device__ C load(int64_t at, int64_t, int64_t) const {
    return take(this->x.template get<C>(at), 0, 0);
  }
};

template <class C>
struct Prod : Values<C> {
  __device__ C start() const { return C(1); }
  __device__ C combine(C a, C b) const { return fn::vmul(a, b); }
};

// NaN wins; `started` tells that a value was seen.
template <class C>
struct Extreme {
  struct Acc {
    C value;
    bool started;
  };
  using Value = C;
  enum { kFlight = 4 };
  Array x, y;
  bool largest;
  __device__ Acc start() const { return {C(0), false}; }
  __device__ Acc take(C v, int64_t, int64_t) const { return {v, true}; }
  __device__ Acc load(int64_t at, int64_t, int64_t) const { return {x.get<C>(at), true}; }
  __device__ Acc combine(Acc a, Acc b) const {
    if (!b.started) return a;
    if (!a.started) return b;
    if (a.value != a.value) return a;
    const bool better = b.value != b.value || (largest ? b.value > a.value : b.value < a.value);
    return better ? b : a;
  }
  __device__ void finish(Acc total, int64_t out) const { y.set<C>(out, total.value); }
};

// How many elements are not zero, and whether any or all are not.
enum class Truth { kAny, kAll, kCount };

template <class C>
struct Truths {
  using Acc = int64_t;
  using Value = C;
  enum { kFlight = sizeof(C) == 8 ? 2 : 4 };
  Array x, y;
  Truth kind;
  __device__ int64_t start() const { return kind == Truth::kAll ? 1 : 0; }
  __device__ int64_t take(C v, int64_t, int64_t) const { return v != C(0); }
  __device__ int64_t load(int64_t at, int64_t, int64_t) const { return x.get<C>(at) != C(0); }
  __device__ int64_t combine(int64_t a, int64_t b) const {
    return kind == Truth::kAny ? a | b : kind == Truth::kAll ? a & b : a + b;
  }
  __device__ void finish(int64_t total, int64_t out) const { y.set<int64_t>(out, total); }
};

Dims one_dim(const Tensor& x, std::optional<int64_t> dim) {
  return dim ? Dims{*dim} : all_dims(x.dim());
}

void extreme(const char* op, bool largest, const Tensor& x, const Dims& dims, Tensor& y) {
  const Call call(x, op);
  visit_device_compute<dtypes::boolean | dtypes::real>(x.dtype(), [&]<class C>() {
    reduce_tensor(call, reduce_grid(x, dims), Extreme<C>{array(x), array(y), largest});
  });
}

}  // namespace

void sum(const Tensor& x, const Dims& dim, bool, std::optional<DType>, Tensor& y) {
  const Call call(x, "sum");
  // Wide integers are summed as such; what becomes a float is converted first.
  visit_device_compute(y.dtype(), [&]<class C>() {
    Sum<C> policy;
    policy.x = array(x);
    policy.y = array(y);
    reduce_tensor<true>(call, reduce_grid(x, dim), policy);
  });
}

void nansum(const Tensor& x, const Dims& dim, bool, std::optional<DType>, Tensor& y) {
  const Call call(x, "nansum");
  visit_device_compute<dtypes::boolean | dtypes::real>(y.dtype(), [&]<class C>() {
    NumberSum<C> policy;
    policy.x = array(x);
    policy.y = array(y);
    reduce_tensor(call, reduce_grid(x, dim), policy);
  });
}

void mean(const Tensor& x, const Dims& dim, bool, std::optional<DType>, Tensor& y) {
  const Call call(x, "mean");
  const ReduceGrid grid = reduce_grid(x, dim);
  visit_device_compute<dtypes::floating | dtypes::complex>(y.dtype(), [&]<class C>() {
    Sum<C> policy;
    policy.x = array(x);
    policy.y = array(y);
    policy.count = static_cast<double>(grid.count);
    reduce_tensor(call, grid, policy);
  });
}

void prod(const Tensor& x, std::optional<int64_t> dim, bool, std::optional<DType>, Tensor& y) {
  const Call call(x, "prod");
  visit_device_compute(y.dtype(), [&]<class C>() {
    Prod<C> policy;
    policy.x = array(x);
    policy.y = array(y);
    reduce_tensor(call, reduce_grid(x, one_dim(x, dim)), policy);
  });
}

void amax(const Tensor& x, const Dims& dim, bool, Tensor& y) { extreme("amax", true, x, dim, y); }
void amin(const Tensor& x, const Dims& dim, bool, Tensor& y) { extreme("amin", false, x, dim, y); }
void aminmax(const Tensor& x, const Dims& dim, bool, Tensor& least, Tensor& largest) {
  extreme("aminmax", false, x, dim, least);
  extreme("aminmax", true, x, dim, largest);
}

namespace {
void truth(const char* op, Truth kind, const Tensor& x, const Dims& dims, Tensor& y) {
  const Call call(x, op);
  visit_device_compute(x.dtype(), [&]<class C>() {
    reduce_tensor<true>(call, reduce_grid(x, dims), Truths<C>{array(x), array(y), kind});
  });
}
}  // namespace

void any(const Tensor& x, const Dims& dim, bool, Tensor& y) {
  truth("any", Truth::kAny, x, dim, y);
}
void all(const Tensor& x, const Dims& dim, bool, Tensor& y) {
  truth("all", Truth::kAll, x, dim, y);
}
void count_nonzero(const Tensor& x, const Dims& dim, Tensor& y) {
  truth("count_nonzero", Truth::kCount, x, dim, y);
}

}  // namespace moonlet::cuda
