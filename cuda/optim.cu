// cuda/optim.cu: one step of an optimiser on one parameter, in one pass over its memory.
#include <cmath>

#include "cuda/device.h"
#include "cuda/geometry.cuh"
#include "tensor/kernels_optim.h"
#include "tensor/optim_math.h"

namespace moonlet::cuda {

namespace {

// A tensor's elements in row order: its own memory, or a copy that `store` writes back.
class Dense {
 public:
  explicit Dense(const Tensor& x) : original_(x), dense_(x.defined() ? contiguous(x) : x) {}
  Array get() const { return dense_.defined() ? array(dense_) : Array{nullptr, DType::Float32}; }
  void store() {
    if (original_.defined() && !dense_.is_same(original_)) copy_back(original_, dense_);
  }

 private:
  Tensor original_, dense_;
};

template <class C>
__global__ void sgd_kernel(optim::SgdConstants<C> c, int64_t count, Array x, Array gradient,
                           Array buffer) {
  for (MOONLET_EACH(i, count)) {
    C value = x.get<C>(i), state = buffer.data ? buffer.get<C>(i) : C(0);
    optim::sgd_element(c, value, gradient.get<C>(i), buffer.data ? &state : nullptr);
    if (buffer.data) buffer.set<C>(i, state);
    x.set<C>(i, value);
  }
}

template <class C>
__global__ void adam_kernel(optim::AdamConstants<C> c, int64_t count, Array x, Array gradient,
                            Array m, Array v, Array v_max) {
  for (MOONLET_EACH(i, count)) {
    C value = x.get<C>(i), mean = m.get<C>(i), square = v.get<C>(i);
    C largest = v_max.data ? v_max.get<C>(i) : C(0);
    optim::adam_element(c, value, gradient.get<C>(i), mean, square,
                        v_max.data ? &largest : nullptr);
    x.set<C>(i, value);
    m.set<C>(i, mean);
    v.set<C>(i, square);
    if (v_max.data) v_max.set<C>(i, largest);
  }
}

}  // namespace

void sgd_step(Tensor& x, const Tensor& gradient, const Tensor& momentum_buffer, double lr,
              double momentum, double dampening, double weight_decay, bool nesterov, bool first) {
  if (x.numel() == 0) return;
  const Call call(x, "sgd_step");
  Dense values(x), grads(gradient), state(momentum != 0 ? momentum_buffer : Tensor());
  visit_device_compute<dtypes::floating>(x.dtype(), [&]<class C>() {
    const optim::SgdConstants<C> c{C(lr),    C(momentum), C(weight_decay), C(1 - dampening),
                                   nesterov, first};
    MOONLET_LAUNCH((sgd_kernel<C>), blocks_for(x.numel()), kBlock, 0, call.stream(), c, x.numel(),
                   values.get(), grads.get(), state.get());
  });
  call.done();
  values.store();
  state.store();
}

void adam_step(Tensor& x, const Tensor& gradient, const Tensor& exp_avg, const Tensor& exp_avg_sq,
               const Tensor& max_exp_avg_sq, int64_t step, double lr, double beta1, double beta2,
               double eps, double weight_decay, bool decoupled) {
  if (x.numel() == 0) return;
  const Call call(x, "adam_step");
  Dense values(x), grads(gradient), m(exp_avg), v(exp_avg_sq), v_max(max_exp_avg_sq);
  visit_device_compute<dtypes::floating>(x.dtype(), [&]<class C>() {
    const auto c = optim::adam_constants<C>(step, lr, beta1, beta2, eps, weight_decay, decoupled);
    MOONLET_LAUNCH((adam_kernel<C>), blocks_for(x.numel()), kBlock, 0, call.stream(), c, x.numel(),
                   values.get(), grads.get(), m.get(), v.get(), v_max.get());
  });
  call.done();
  for (Dense* each : {&values, &m, &v, &v_max}) each->store();
}

}  // namespace moonlet::cuda
