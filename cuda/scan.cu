// cuda/scan.cu: running sums and products.
#include "cuda/scan.cuh"
#include "tensor/kernels_scan.h"

namespace moonlet::cuda {

namespace {

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

}  // namespace

void cumsum(const Tensor& x, int64_t dim, std::optional<DType>, Tensor& y) {
  running<false>("cumsum", x, dim, y);
}
void cumprod(const Tensor& x, int64_t dim, std::optional<DType>, Tensor& y) {
  running<true>("cumprod", x, dim, y);
}

}  // namespace moonlet::cuda
