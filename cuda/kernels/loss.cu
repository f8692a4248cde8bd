// cuda/kernels/loss.cu: the negative log likelihood and its gradient.
#include "cuda/kernels/common/faults.cuh"
#include "cuda/kernels/common/geometry.cuh"
#include "cuda/kernels/common/reduce.cuh"
#include "cuda/runtime/device.h"
#include "tensor/kernels_copy.h"
#include "tensor/kernels_loss.h"

namespace moonlet::cuda {

namespace {

// log_probs as (outer, classes, inner); the targets as (outer, inner).
struct Classes {
  int64_t classes, inner, count, ignore;
  Reporter reporter;
  // The class that counts for a target: none, 0, where it is ignored or reported as wrong.
  __device__ int64_t wanted(int64_t target) const {
    if (target == ignore) return 0;
    if (target >= 1 && target <= classes) return target;
    report(reporter, target, classes);
    return 0;
  }
  __device__ int64_t position(int64_t i, int64_t target) const {
    return (i / inner * classes + target - 1) * inner + i % inner;
  }
};

Classes classes_of(const Call& call, const Dims& size, int64_t count, int64_t ignore) {
  const Reporter wrong = reporter(call.device().index, call.op(), Fault::Target);
  if (size.size() == 1) return {size[0], 1, count, ignore, wrong};
  Classes out{size[1], 1, count, ignore, wrong};
  for (int i = 2; i < size.size(); ++i) out.inner *= size[i];
  return out;
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
    const int64_t t = c.wanted(target[i]);
    if (t == 0) {
      if (reduction == 0) y.set<C>(i, C(0));
      return {0, 0};
    }
    const C factor = weighted ? weight.get<C>(t - 1) : C(1);
    const C loss = -factor * log_probs.get<C>(c.position(i, t));
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
    const int64_t t = c.wanted(target[i]);
    if (t == 0) continue;
    const C factor = weighted ? weight.get<C>(t - 1) : C(1);
    y.set<C>(c.position(i, t), -grad.get<C>(reduction == 0 ? i : 0) * factor / total);
  }
}

}  // namespace

void native_nll_loss(const Tensor& log_probs, const Tensor& target, const Tensor& weight,
                     int64_t reduction, int64_t ignore_index, Tensor& y, Tensor& total_weight) {
  const Call call(log_probs, "nll_loss");
  const Classes c = classes_of(call, log_probs.sizes(), target.numel(), ignore_index);
  const Tensor source = contiguous(log_probs), targets = converted(target, DType::Int64);
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
  const Classes c = classes_of(call, size, target.numel(), ignore_index);
  fill(y, Scalar(0));
  const Tensor targets = converted(target, DType::Int64), gradient = contiguous(grad);
  const Tensor factors = weight.defined() ? contiguous(weight) : gradient;
  if (c.count == 0) return;
  visit_device_compute<dtypes::floating>(y.dtype(), [&]<class C>() {
    MOONLET_LAUNCH((gradient_kernel<C>), blocks_for(c.count), kBlock, 0, call.stream(), c,
                   static_cast<const int64_t*>(targets.elements<int64_t>()), array(gradient),
                   array(factors), weight.defined(), array(total_weight),
                   static_cast<int>(reduction), array(y));
  });
  call.done();
}

}  // namespace moonlet::cuda
