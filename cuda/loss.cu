// cuda/loss.cu: the negative log likelihood and its gradient.
#include "cuda/device.h"
#include "cuda/geometry.cuh"
#include "cuda/reduce.cuh"
#include "tensor/kernels_copy.h"
#include "tensor/kernels_loss.h"

namespace moonlet::cuda {

namespace {

// log_probs as (outer, classes, inner); the targets as (outer, inner).
struct Classes {
  int64_t classes, inner, count, ignore;
  __device__ int64_t place(int64_t i, int64_t target) const {
    return (i / inner * classes + target - 1) * inner + i % inner;
  }
};

Classes classes_of(const Dims& size, int64_t count, int64_t ignore) {
  if (size.size() == 1) return {size[0], 1, count, ignore};
  Classes out{size[1], 1, count, ignore};
  for (int i = 2; i < size.size(); ++i) out.inner *= size[i];
  return out;
}

// The first target that is no class, or none.
__global__ void check_targets_kernel(Classes c, const int64_t* target, unsigned long long* bad) {
  for (MOONLET_EACH(i, c.count)) {
    const int64_t t = target[i];
    if (t != c.ignore && (t < 1 || t > c.classes))
      atomicMin(bad, static_cast<unsigned long long>(i));
  }
}

Tensor checked_targets(const Call& call, const Classes& c, const Tensor& target) {
  const Tensor out = converted(target, DType::Int64);
  if (c.count == 0) return out;
  Tensor flag = call.scratch({1}, DType::Int64);
  constexpr unsigned long long kNone = ~0ull;
  unsigned long long bad = kNone;
  ensure(cudaMemsetAsync(flag.raw(), 0xff, sizeof bad, call.stream()), call.op());
  MOONLET_LAUNCH(check_targets_kernel, blocks_for(c.count), kBlock, 0, call.stream(), c,
                 static_cast<const int64_t*>(out.elements<int64_t>()),
                 flag.elements<unsigned long long>());
  call.done();
  ensure(cudaMemcpyAsync(&bad, flag.raw(), sizeof bad, cudaMemcpyDeviceToHost, call.stream()),
         call.op());
  call.wait();
  if (bad == kNone) return out;
  int64_t value = 0;
  ensure(cudaMemcpyAsync(&value, out.elements<int64_t>() + bad, sizeof value,
                         cudaMemcpyDeviceToHost, call.stream()),
         call.op());
  call.wait();
  fail(call.op(), ": target ", value, " is no class of 1 to ", c.classes);
}

// Sums of losses and of weights, both in double.
template <class C>
struct Loss {
  struct Acc {
    double loss, weight;
  };
  Classes c;
  Array log_probs, weight, y, total_weight;
  const int64_t* target;
  bool weighted;
  int reduction;
  __device__ Acc start() const { return {0, 0}; }
  __device__ Acc load(int64_t, int64_t, int64_t i) const {
    const int64_t t = target[i];
    if (t == c.ignore) {
      if (reduction == 0) y.set<C>(i, C(0));
      return {0, 0};
    }
    const C factor = weighted ? weight.get<C>(t - 1) : C(1);
    const C loss = -factor * log_probs.get<C>(c.place(i, t));
    if (reduction == 0) y.set<C>(i, loss);
    return {static_cast<double>(loss), static_cast<double>(factor)};
  }
  __device__ Acc combine(Acc a, Acc b) const { return {a.loss + b.loss, a.weight + b.weight}; }
  __device__ void finish(Acc total, int64_t) const {
    if (reduction != 0)
      y.set<C>(0, static_cast<C>(reduction == 1 ? total.loss / total.weight : total.loss));
    total_weight.set<C>(0, static_cast<C>(total.weight));
  }
};

template <class C>
__global__ void gradient_kernel(Classes c, const int64_t* target, Array grad, Array weight,
                                bool weighted, Array total_weight, int reduction, Array y) {
  const C total = reduction == 1 ? total_weight.get<C>(0) : C(1);
  for (MOONLET_EACH(i, c.count)) {
    const int64_t t = target[i];
    if (t == c.ignore) continue;
    const C factor = weighted ? weight.get<C>(t - 1) : C(1);
    y.set<C>(c.place(i, t), -grad.get<C>(reduction == 0 ? i : 0) * factor / total);
  }
}

}  // namespace

void native_nll_loss(const Tensor& log_probs, const Tensor& target, const Tensor& weight,
                     int64_t reduction, int64_t ignore_index, Tensor& y, Tensor& total_weight) {
  const Call call(log_probs, "nll_loss");
  const Classes c = classes_of(log_probs.sizes(), target.numel(), ignore_index);
  const Tensor source = contiguous(log_probs), targets = checked_targets(call, c, target);
  const Tensor factors = weight.defined() ? contiguous(weight) : source;
  ReduceGrid grid = reduce_grid(targets, all_dims(targets.dim()));
  visit_device_compute<dtypes::floating>(log_probs.dtype(), [&]<class C>() {
    reduce_by(call, grid,
              Loss<C>{c, array(source), array(factors), array(y), array(total_weight),
                      targets.elements<int64_t>(), weight.defined(), static_cast<int>(reduction)});
  });
}

void nll_loss_grad_log_probs(const Tensor& grad, const Tensor& target, const Tensor& weight,
                             const Tensor& total_weight, const Dims& size, int64_t reduction,
                             int64_t ignore_index, Tensor& y) {
  const Call call(y, "nll_loss_grad_log_probs");
  const Classes c = classes_of(size, target.numel(), ignore_index);
  fill(y, Scalar(0));
  const Tensor targets = checked_targets(call, c, target), slope = contiguous(grad);
  const Tensor factors = weight.defined() ? contiguous(weight) : slope;
  if (c.count == 0) return;
  visit_device_compute<dtypes::floating>(y.dtype(), [&]<class C>() {
    MOONLET_LAUNCH((gradient_kernel<C>), blocks_for(c.count), kBlock, 0, call.stream(), c,
                   static_cast<const int64_t*>(targets.elements<int64_t>()), array(slope),
                   array(factors), weight.defined(), array(total_weight),
                   static_cast<int>(reduction), array(y));
  });
  call.done();
}

}  // namespace moonlet::cuda
