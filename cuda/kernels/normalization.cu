// cuda/kernels/normalization.cu: layer_norm, rms_norm and batch_norm and their gradients. Rows are
// done in layer_norm.cu, and channels that lie in packs in batch_norm.cu; of others a block does
// one.
#include <algorithm>

#include "cuda/kernels/batch_norm.h"
#include "cuda/kernels/common/geometry.cuh"
#include "cuda/kernels/common/moments.cuh"
#include "cuda/kernels/layer_norm.h"
#include "cuda/runtime/device.h"
#include "tensor/functors/functor_math.h"
#include "tensor/kernels_copy.h"
#include "tensor/kernels_normalization.h"
#include "tensor/kernels_reduce.h"
#include "tensor/raw_reduce.h"

namespace moonlet::cuda {

namespace {

using namespace fn;  // NOLINT(google-build-using-namespace)

// The elements of each channel: element i of channel g lies at g * inner + i / inner * outer_step +
// i % inner.
struct Groups {
  int64_t count, size, inner, outer_step;
  bool narrow;  // an element's number can be divided by `by`, which is `inner`
  Divider by;
  __device__ int64_t at(int64_t g, int64_t i) const {
    const int64_t outer = narrow ? by.quotient(static_cast<uint32_t>(i)) : i / inner;
    return g * inner + outer * outer_step + (i - outer * inner);
  }
};

Groups channels_of(const Tensor& x) {
  int64_t inner = 1;
  for (int i = 2; i < x.dim(); ++i) inner *= x.size(i);
  const int64_t channels = x.size(1);
  const int64_t size = x.size(0) * inner;
  const bool narrow = size > 0 && size < kDividerLimit;
  return {channels,         size,   inner == 0 ? 1 : inner,
          channels * inner, narrow, narrow ? Divider(inner) : Divider()};
}

template <class C>
__device__ C total(C v) {
  return combine_block(v, AddUp());
}

// An optional tensor's elements.
struct Optional {
  Array array;
  bool given;
  template <class C>
  __device__ C get(int64_t i, C otherwise) const {
    return given ? array.get<C>(i) : otherwise;
  }
};

struct Running {
  Optional mean, var;
  double momentum;
};

template <class C>
__device__ void update_running(const Optional& running, int64_t g, C value, double momentum) {
  if (!running.given) return;
  const C old = running.array.get<C>(g);
  running.array.set<C>(g, old + static_cast<C>(momentum) * (value - old));
}

template <class C>
__global__ void normalise_kernel(Groups groups, Array x, Optional weight, Optional bias, double eps,
                                 Array y, Array mean, Array rstd, Running running) {
  for (int64_t g = blockIdx.x; g < groups.count; g += gridDim.x) {
    const C n = static_cast<C>(groups.size);
    C sum = C(0), squares = C(0), drift = C(0);
    for (int64_t i = threadIdx.x; i < groups.size; i += kBlock) sum += x.get<C>(groups.at(g, i));
    const C m = total(sum) / n;
    for (int64_t i = threadIdx.x; i < groups.size; i += kBlock) {
      const C distance = x.get<C>(groups.at(g, i)) - m;
      drift += distance;
      squares += distance * distance;
    }
    drift = total(drift) / n;
    Spread spread = {m, drift, static_cast<double>(total(squares)) - n * drift * drift, 1};
    if (left_range<C>(spread.squares, groups.size, eps))
      spread = spread_in_double(
          groups.size, groups.size, threadIdx.x, kBlock, true,
          [&](int64_t i) { return static_cast<double>(x.get<C>(groups.at(g, i))); });
    const Center<C> center(spread, groups.size, eps);
    if (threadIdx.x == 0) {
      mean.set<double>(g, center.exact_mean);
      rstd.set<double>(g, center.exact_rstd);
      update_running<C>(running.mean, g, static_cast<C>(center.exact_mean), running.momentum);
      update_running<C>(running.var, g, static_cast<C>(spread.variance(n - C(1))),
                        running.momentum);
    }
    for (int64_t i = threadIdx.x; i < groups.size; i += kBlock) {
      const int64_t at = groups.at(g, i);
      y.set<C>(at, center.normal(x.get<C>(at)) * weight.get<C>(g, C(1)) + bias.get<C>(g, C(0)));
    }
  }
}

// With h = (x - mean) rstd and e = grad weight: y = rstd (e - mean(e) - h mean(e h)).
template <class C>
__global__ void gradient_kernel(Groups groups, Array grad, Array x, Array mean, Array rstd,
                                Optional weight, Array y) {
  for (int64_t g = blockIdx.x; g < groups.count; g += gridDim.x) {
    const C n = static_cast<C>(groups.size);
    const Center<C> center(mean.get<double>(g), rstd.get<double>(g), groups.size);
    C first = C(0), second = C(0);
    for (int64_t i = threadIdx.x; i < groups.size; i += kBlock) {
      const int64_t at = groups.at(g, i);
      const C e = grad.get<C>(at) * weight.get<C>(g, C(1));
      first += e;
      second += e * center.normal(x.get<C>(at));
    }
    first = total(first) / n;
    second = total(second) / n;
    for (int64_t i = threadIdx.x; i < groups.size; i += kBlock) {
      const int64_t at = groups.at(g, i);
      const C e = grad.get<C>(at) * weight.get<C>(g, C(1));
      y.set<C>(at, center.scaled(e - first - center.normal(x.get<C>(at)) * second));
    }
  }
}

// The gradient of a channel's weight: the sum of grad h.
template <class C>
__global__ void channel_weight_kernel(Groups groups, Array grad, Array x, Array mean, Array rstd,
                                      Array y) {
  for (int64_t g = blockIdx.x; g < groups.count; g += gridDim.x) {
    const Center<C> center(mean.get<double>(g), rstd.get<double>(g), groups.size);
    C sum = C(0);
    for (int64_t i = threadIdx.x; i < groups.size; i += kBlock) {
      const int64_t at = groups.at(g, i);
      sum += grad.get<C>(at) * center.normal(x.get<C>(at));
    }
    sum = total(sum);
    if (threadIdx.x == 0) y.set<C>(g, sum);
  }
}

// An optional argument, kept alive and contiguous.
struct OptionalInput {
  Tensor tensor;
  explicit OptionalInput(const Tensor& t) : tensor(t.defined() ? contiguous(t) : t) {}
  Optional get() const {
    return {tensor.defined() ? array(tensor) : Array{nullptr, DType::Float32}, tensor.defined()};
  }
};

void normalise(const Call& call, const Groups& groups, const Tensor& x, const Tensor& weight,
               const Tensor& bias, double eps, Tensor& result, Tensor& mean, Tensor& rstd,
               const Running& running) {
  if (groups.count == 0 || groups.size == 0) return;
  with_contiguous(result, [&](Tensor& y) {
    const Tensor source = contiguous(x);
    const OptionalInput w(weight), b(bias);
    visit_device_compute<dtypes::floating>(x.dtype(), [&]<class C>() {
      MOONLET_LAUNCH((normalise_kernel<C>), blocks_for(groups.count * kBlock), kBlock, 0,
                     call.stream(), groups, array(source), w.get(), b.get(), eps, array(y),
                     array(mean), array(rstd), running);
    });
    call.done();
  });
}

void gradient_of_x(const Call& call, const Groups& groups, const RowGradients& in,
                   const Tensor& weight, Tensor& result) {
  if (groups.count == 0 || groups.size == 0) return;
  with_contiguous(result, [&](Tensor& y) {
    const OptionalInput w(weight);
    visit_device_compute<dtypes::floating>(y.dtype(), [&]<class C>() {
      MOONLET_LAUNCH((gradient_kernel<C>), blocks_for(groups.count * kBlock), kBlock, 0,
                     call.stream(), groups, array(in.grad), array(in.x), array(in.mean),
                     array(in.rstd), w.get(), array(y));
    });
    call.done();
  });
}

}  // namespace

void native_layer_norm(const Tensor& x, const Dims& normalized_shape, const Tensor& weight,
                       const Tensor& bias, double eps, Tensor& y, Tensor& mean, Tensor& rstd) {
  normalise_rows(Call(x, "layer_norm"), normalized_shape.size(), x, weight, bias, eps, y, mean,
                 rstd);
}

void layer_norm_grad_x(const Tensor& grad, const Tensor& x, const Tensor& mean, const Tensor& rstd,
                       const Tensor& weight, int64_t dims, double, Tensor& y) {
  row_gradients_of_x(Call(x, "layer_norm_grad_x"), dims, RowGradients(grad, x, mean, rstd), weight,
                     y);
}

void layer_norm_grad_weight(const Tensor& grad, const Tensor& x, const Tensor& mean,
                            const Tensor& rstd, int64_t dims, double, Tensor& y) {
  row_gradients_of_weight(Call(x, "layer_norm_grad_weight"), dims,
                          RowGradients(grad, x, mean, rstd), y);
}

void native_rms_norm(const Tensor& x, const Dims& normalized_shape, const Tensor& weight,
                     double eps, Tensor& y, Tensor& rstd) {
  normalise_rows(Call(x, "rms_norm"), normalized_shape.size(), x, weight, {}, eps, y, {}, rstd);
}

void rms_norm_grad_x(const Tensor& grad, const Tensor& x, const Tensor& rstd, const Tensor& weight,
                     int64_t dims, double, Tensor& y) {
  row_gradients_of_x(Call(x, "rms_norm_grad_x"), dims, RowGradients(grad, x, {}, rstd), weight, y);
}

void rms_norm_grad_weight(const Tensor& grad, const Tensor& x, const Tensor& rstd, int64_t dims,
                          double, Tensor& y) {
  row_gradients_of_weight(Call(x, "rms_norm_grad_weight"), dims, RowGradients(grad, x, {}, rstd),
                          y);
}

void native_batch_norm(const Tensor& x, const Tensor& weight, const Tensor& bias,
                       const Tensor& running_mean, const Tensor& running_var, double momentum,
                       double eps, Tensor& y, Tensor& mean, Tensor& rstd) {
  const Call call(x, "batch_norm");
  const OptionalInput old_mean(running_mean), old_var(running_var);
  if (!batch_norm_by_packs(call, x, weight, bias, {old_mean.tensor, old_var.tensor, momentum}, eps,
                           y, mean, rstd))
    normalise(call, channels_of(x), x, weight, bias, eps, y, mean, rstd,
              {old_mean.get(), old_var.get(), momentum});
  for (const auto& [kept, given] :
       {std::pair{old_mean.tensor, running_mean}, std::pair{old_var.tensor, running_var}}) {
    Tensor target = given;
    if (given.defined() && !given.is_contiguous()) copy_back(target, kept);
  }
}

void batch_norm_grad_x(const Tensor& grad, const Tensor& x, const Tensor& mean, const Tensor& rstd,
                       const Tensor& weight, double, Tensor& y) {
  const Call call(x, "batch_norm_grad_x");
  if (batch_norm_backward_by_packs(call, grad, x, mean, rstd, weight, {.x = &y})) return;
  gradient_of_x(call, channels_of(x), RowGradients(grad, x, mean, rstd), weight, y);
}

void batch_norm_grad_weight(const Tensor& grad, const Tensor& x, const Tensor& mean,
                            const Tensor& rstd, double, Tensor& y) {
  const Call call(x, "batch_norm_grad_weight");
  if (y.numel() == 0) return;
  if (x.numel() == 0) return fill(y, Scalar(0));
  if (batch_norm_backward_by_packs(call, grad, x, mean, rstd, {}, {.weight = &y})) return;
  const RowGradients in(grad, x, mean, rstd);
  const Groups groups = channels_of(x);
  visit_device_compute<dtypes::floating>(y.dtype(), [&]<class C>() {
    MOONLET_LAUNCH((channel_weight_kernel<C>), blocks_for(groups.count * kBlock), kBlock, 0,
                   call.stream(), groups, array(in.grad), array(in.x), array(in.mean),
                   array(in.rstd), array(y));
  });
  call.done();
}

void batch_norm_grads(const Tensor& grad, const Tensor& x, const Tensor& mean, const Tensor& rstd,
                      const Tensor& weight, Tensor& grad_x, Tensor& grad_weight,
                      Tensor& grad_bias) {
  const Call call(x, "batch_norm_grads");
  if (batch_norm_backward_by_packs(call, grad, x, mean, rstd, weight,
                                   {&grad_x, &grad_weight, &grad_bias}))
    return;
  batch_norm_grad_x(grad, x, mean, rstd, weight, 0, grad_x);
  batch_norm_grad_weight(grad, x, mean, rstd, 0, grad_weight);
  Dims others{0};
  for (int d = 2; d < x.dim(); ++d) others.push_back(d);
  copy(grad_bias, raw::sum(grad, others, false, {}));
}

}  // namespace moonlet::cuda
