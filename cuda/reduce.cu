// cuda/reduce.cu: sums, averages, products, extremes, truth and counts over dimensions.
#include "cuda/reduce.cuh"
#include "tensor/kernels_reduce.h"

namespace moonlet::cuda {

namespace {

// Values of x as C; the results go to y.
template <class C>
struct Values {
  using Acc = C;
  Array x, y;
  __device__ C load(int64_t at, int64_t, int64_t) const { return x.get<C>(at); }
  __device__ void finish(C total, int64_t out) const { y.set<C>(out, total); }
};

template <class C>
struct Sum : Values<C> {
  __device__ C start() const { return C(0); }
  __device__ C combine(C a, C b) const { return a + b; }
};

// NaN counts as 0.
template <class C>
struct NumberSum : Sum<C> {
  __device__ C load(int64_t at, int64_t, int64_t) const {
    const C v = this->x.template get<C>(at);
    return v == v ? v : C(0);
  }
};

template <class C>
struct Mean : Sum<C> {
  double count;
  __device__ void finish(C total, int64_t out) const {
    this->y.template set<C>(out, total / C(count));
  }
};

template <class C>
struct Prod : Values<C> {
  __device__ C start() const { return C(1); }
  __device__ C combine(C a, C b) const { return a * b; }
};

// NaN wins; `started` tells that a value was seen.
template <class C, bool kLargest>
struct Extreme {
  struct Acc {
    C value;
    bool started;
  };
  Array x, y;
  __device__ Acc start() const { return {C(0), false}; }
  __device__ Acc load(int64_t at, int64_t, int64_t) const { return {x.get<C>(at), true}; }
  __device__ Acc combine(Acc a, Acc b) const {
    if (!b.started) return a;
    if (!a.started) return b;
    if (a.value != a.value) return a;
    const bool better = b.value != b.value || (kLargest ? b.value > a.value : b.value < a.value);
    return better ? b : a;
  }
  __device__ void finish(Acc total, int64_t out) const { y.set<C>(out, total.value); }
};

// 1 for an element that is not zero, else 0.
struct Truth {
  using Acc = int64_t;
  Array x, y;
  __device__ int64_t load(int64_t at, int64_t, int64_t) const {
    const Kind kind = kind_on_device(x.dtype);
    if (kind == Kind::Complex) return x.get<Complex<double>>(at) != Complex<double>(0);
    if (kind == Kind::Floating) return x.get<double>(at) != 0;
    return x.get<int64_t>(at) != 0;
  }
  __device__ void finish(int64_t total, int64_t out) const { y.set<int64_t>(out, total); }
};
struct Any : Truth {
  __device__ int64_t start() const { return 0; }
  __device__ int64_t combine(int64_t a, int64_t b) const { return a | b; }
};
struct All : Truth {
  __device__ int64_t start() const { return 1; }
  __device__ int64_t combine(int64_t a, int64_t b) const { return a & b; }
};
struct Count : Truth {
  __device__ int64_t start() const { return 0; }
  __device__ int64_t combine(int64_t a, int64_t b) const { return a + b; }
};

Dims one_dim(const Tensor& x, std::optional<int64_t> dim) {
  return dim ? Dims{*dim} : all_dims(x.dim());
}

template <bool kLargest>
void extreme(const char* op, const Tensor& x, const Dims& dims, Tensor& y) {
  const Call call(x, op);
  visit_device_compute<dtypes::boolean | dtypes::real>(x.dtype(), [&]<class C>() {
    reduce_by(call, reduce_grid(x, dims), Extreme<C, kLargest>{array(x), array(y)});
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
    reduce_by(call, reduce_grid(x, dim), policy);
  });
}

void nansum(const Tensor& x, const Dims& dim, bool, std::optional<DType>, Tensor& y) {
  const Call call(x, "nansum");
  visit_device_compute<dtypes::boolean | dtypes::real>(y.dtype(), [&]<class C>() {
    NumberSum<C> policy;
    policy.x = array(x);
    policy.y = array(y);
    reduce_by(call, reduce_grid(x, dim), policy);
  });
}

void mean(const Tensor& x, const Dims& dim, bool, std::optional<DType>, Tensor& y) {
  const Call call(x, "mean");
  const ReduceGrid grid = reduce_grid(x, dim);
  visit_device_compute<dtypes::floating | dtypes::complex>(y.dtype(), [&]<class C>() {
    Mean<C> policy;
    policy.x = array(x);
    policy.y = array(y);
    policy.count = static_cast<double>(grid.count);
    reduce_by(call, grid, policy);
  });
}

void prod(const Tensor& x, std::optional<int64_t> dim, bool, std::optional<DType>, Tensor& y) {
  const Call call(x, "prod");
  visit_device_compute(y.dtype(), [&]<class C>() {
    Prod<C> policy;
    policy.x = array(x);
    policy.y = array(y);
    reduce_by(call, reduce_grid(x, one_dim(x, dim)), policy);
  });
}

void amax(const Tensor& x, const Dims& dim, bool, Tensor& y) { extreme<true>("amax", x, dim, y); }
void amin(const Tensor& x, const Dims& dim, bool, Tensor& y) { extreme<false>("amin", x, dim, y); }
void aminmax(const Tensor& x, const Dims& dim, bool, Tensor& least, Tensor& largest) {
  extreme<false>("aminmax", x, dim, least);
  extreme<true>("aminmax", x, dim, largest);
}

namespace {
template <class P>
void truth(const char* op, const Tensor& x, const Dims& dims, Tensor& y) {
  const Call call(x, op);
  P policy;
  policy.x = array(x);
  policy.y = array(y);
  reduce_by(call, reduce_grid(x, dims), policy);
}
}  // namespace

void any(const Tensor& x, const Dims& dim, bool, Tensor& y) { truth<Any>("any", x, dim, y); }
void all(const Tensor& x, const Dims& dim, bool, Tensor& y) { truth<All>("all", x, dim, y); }
void count_nonzero(const Tensor& x, const Dims& dim, Tensor& y) {
  truth<Count>("count_nonzero", x, dim, y);
}

}  // namespace moonlet::cuda
