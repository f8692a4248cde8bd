// cuda/kernels/loss.cu: the negative log likelihood and its gradient.
#include "cuda/kernels/common/geometry.cuh"
#include "cuda/kernels/common/reduce.cuh"
#include "cuda/kernels/loss_classes.cuh"
#include "cuda/runtime/device.h"
#include "tensor/kernels_copy.h"
#include "tensor/kernels_loss.h"

namespace moonlet::cuda {

namespace {

// Sums of losses and of weights, both in double.
template <class C, class I, class Source>
struct Loss {
  struct Acc {
    double loss, weight;
  };
  Classes<I> c;
  Source log_probs, weight, y, total_weight;
  const int64_t* target;
  bool weighted;
  int reduction;
  __device__ Acc start() const { return {0, 0}; }
  __device__ Acc load(int64_t, int64_t, int64_t i) const {
    const int64_t t = c.wanted(target[i]);
    if (t == 0) {
      if (reduction == 0) y.template set<C>(i, C(0));
      return {0, 0};
    }
    const C factor = weighted ? weight.template get<C>(t - 1) : C(1);
    const C loss = -factor * log_probs.template get<C>(c.position(i, t));
    if (reduction == 0) y.template set<C>(i, loss);
    return {static_cast<double>(loss), static_cast<double>(factor)};
  }
  __device__ Acc combine(Acc a, Acc b) const { return {a.loss + b.loss, a.weight + b.weight}; }
  __device__ void finish(Acc total, int64_t) const {
    if (reduction != 0)
      y.template set<C>(0, static_cast<C>(reduction == 1 ? total.loss / total.weight : total.loss));
    total_weight.template set<C>(0, static_cast<C>(total.weight));
  }
};

template <class C, class I, class Source>
__global__ void __launch_bounds__(kBlock)
    gradient_kernel(Classes<I> c, const int64_t* target, Source grad, Source weight, bool weighted,
                    Source total_weight, int reduction, Source y) {
  const C total = reduction == 1 ? total_weight.template get<C>(0) : C(1);
  for (MOONLET_EACH_OF(I, i, c.count)) {
    const int64_t t = c.wanted(target[i]);
    if (t == 0) continue;
    const C factor = weighted ? weight.template get<C>(t - 1) : C(1);
    y.template set<C>(c.position(i, t),
                      -grad.template get<C>(reduction == 0 ? i : 0) * factor / total);
  }
}

}  // namespace

void native_nll_loss(const Tensor& log_probs, const Tensor& target, const Tensor& weight,
                     int64_t reduction, int64_t ignore_index, Tensor& y, Tensor& total_weight) {
  const Call call(log_probs, "nll_loss");
  const Tensor source = contiguous(log_probs), targets = converted(target, DType::Int64);
  const Tensor factors = weight.defined() ? contiguous(weight) : source;
  const ReduceGrid grid = reduce_grid(targets, all_dims(targets.dim()));
  const int64_t count = target.numel();
  visit_losses(log_probs.dtype(), count, [&]<class C, class I, class Source>() {
    const auto at = elements_of<Source>;
    reduce_by(
        call, grid,
        Loss<C, I, Source>{classes_of<I>(call, log_probs.sizes(), count, ignore_index), at(source),
                           at(factors), at(y), at(total_weight), targets.elements<int64_t>(),
                           weight.defined(), static_cast<int>(reduction)});
  });
}

void nll_loss_grad_log_probs(const Tensor& grad, const Tensor& target, const Tensor& weight,
                             const Tensor& total_weight, const Dims& size, int64_t reduction,
                             int64_t ignore_index, Tensor& y) {
  const Call call(y, "nll_loss_grad_log_probs");
  fill(y, Scalar(0));
  const Tensor targets = converted(target, DType::Int64), gradient = contiguous(grad);
  const Tensor factors = weight.defined() ? contiguous(weight) : gradient;
  const int64_t count = target.numel();
  if (count == 0) return;
  visit_losses(y.dtype(), count, [&]<class C, class I, class Source>() {
    const auto at = elements_of<Source>;
    MOONLET_LAUNCH((gradient_kernel<C, I, Source>), blocks_for(count), kBlock, 0, call.stream(),
                   (classes_of<I>(call, size, count, ignore_index)),
                   static_cast<const int64_t*>(targets.elements<int64_t>()), at(gradient),
                   at(factors), weight.defined(), at(total_weight), static_cast<int>(reduction),
                   at(y));
  });
  call.done();
}

}  // namespace moonlet::cuda
